"""The identity of a release by content, so that a ledger knows it again however often it is saved and served."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from edgeveil.release.release import Release

__all__ = ["release_identity"]


def release_identity(release: Release) -> str:
    """A hash of defence, weights and structure. A release without defence has the private graph in it: never publish
    the hash of one, a ledger keeps it under its key.
    """
    state = hashlib.sha256(repr((release.defence, sorted(map(str, release.params.items())))).encode())
    _, weights, structure = release.predictor.state()
    for arrays in (weights, structure):
        for name in sorted(arrays):
            state.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return state.hexdigest()
