"""For PyTorch Geometric pipelines: transforms that make a graph edge-private, and conversions. Needs the extra ``pyg``.

``edgeveil.pyg.LapGraph(epsilon=8)`` is a transform; see `edgeveil.defences.pyg_transforms`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgeveil.defences.pyg_transforms import EdgeRand as EdgeRand
    from edgeveil.defences.pyg_transforms import LapGraph as LapGraph
    from edgeveil.defences.pyg_transforms import Private as Private
    from edgeveil.graph.pyg_data import from_pyg as from_pyg
    from edgeveil.graph.pyg_data import to_pyg as to_pyg

_HOMES = {
    "EdgeRand": "edgeveil.defences.pyg_transforms",
    "LapGraph": "edgeveil.defences.pyg_transforms",
    "Private": "edgeveil.defences.pyg_transforms",
    "from_pyg": "edgeveil.graph.pyg_data",
    "to_pyg": "edgeveil.graph.pyg_data",
}

__all__ = ["EdgeRand", "LapGraph", "Private", "from_pyg", "to_pyg"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
