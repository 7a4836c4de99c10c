"""For PyTorch Geometric pipelines: transforms that make a graph edge-private, and conversions. Needs the extra ``pyg``.

``edgeveil.pyg.LapGraph(epsilon=8)`` is a transform; see `edgeveil.pyg.transforms`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgeveil.graph.pyg_data import from_pyg as from_pyg
    from edgeveil.graph.pyg_data import to_pyg as to_pyg
    from edgeveil.pyg.transforms import EdgeRand as EdgeRand
    from edgeveil.pyg.transforms import LapGraph as LapGraph
    from edgeveil.pyg.transforms import Private as Private

_HOMES = {
    "EdgeRand": "edgeveil.pyg.transforms",
    "LapGraph": "edgeveil.pyg.transforms",
    "Private": "edgeveil.pyg.transforms",
    "from_pyg": "edgeveil.graph.pyg_data",
    "to_pyg": "edgeveil.graph.pyg_data",
}

__all__ = ["EdgeRand", "LapGraph", "Private", "from_pyg", "to_pyg"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
