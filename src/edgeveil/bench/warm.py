"""Imported once by the server that forks workers, so that a hundred workers do not import torch a hundred times."""

from __future__ import annotations

from edgeveil.attacks.base import ATTACKS
from edgeveil.bench import processes, run
from edgeveil.defences.base import DEFENCES

ATTACKS.load()
DEFENCES.load()
__all__ = ["processes", "run"]
