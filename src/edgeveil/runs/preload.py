"""Imported once by the server that forks workers, so that a hundred workers do not import torch a hundred times."""

from __future__ import annotations

from edgeveil.attacks.attack import ATTACKS
from edgeveil.defences.defence import DEFENCES
from edgeveil.runs import measure, processes

ATTACKS.load()
DEFENCES.load()
__all__ = ["measure", "processes"]
