"""The last step of every remote source: raw files to arrays, checked against what is known, written in one step."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.errors import StorageError
from edgeveil.graph.catalog import Dataset
from edgeveil.graph.npz import write_arrays
from edgeveil.graph.sources import collections  # noqa: F401  (registers its readers)
from edgeveil.graph.sources.readers import READERS, Raw

__all__ = ["content_digest", "store"]


def content_digest(arrays: Mapping[str, Any]) -> str:
    """sha256 over names, types, shapes and values: independent of how the archive was compressed."""
    value = hashlib.sha256()
    for key in sorted(arrays):
        array = np.ascontiguousarray(arrays[key])
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        value.update(f"{key} {little.dtype.str} {array.shape}\n".encode())
        value.update(little.tobytes())
    return value.hexdigest()


def store(record: Dataset, reader: str, raw: Raw, target: Path) -> None:
    """Convert, compare with the catalogue's content digest (or the published counts) and write ``graph.npz``."""
    try:
        arrays = READERS[reader](raw)
    except (KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
        raise StorageError(f"the raw files are not as expected ({type(error).__name__}: {error})") from error
    if record.content:
        got = content_digest(arrays)
        if got != record.content:
            raise StorageError(f"the converted graph has content digest {got} instead of {record.content}")
    else:
        measured = {
            "nodes": len(arrays["y"]),
            "edges": arrays["edge_index"].shape[1],
            "features": int(arrays["x_shape"][1]),
        }
        wrong = [
            f"{got:,} {key}, not {getattr(record, key):,}"
            for key, got in measured.items()
            if got != getattr(record, key)
        ]
        if wrong:
            raise StorageError(f"the converted graph has {'; '.join(wrong)}")
    write_arrays(target, arrays)
