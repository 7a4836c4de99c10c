"""edgeveil: which edges of a private graph does a GNN give away, and how do you stop it?

Names are loaded on first use, so ``import edgeveil`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from edgeveil import metrics as metrics
    from edgeveil.graph.graph import Graph as Graph

_HOMES = {
    "Graph": "edgeveil.graph.graph",
    "load": "edgeveil.graph.datasets",
    "EdgeRand": "edgeveil.defences.edgerand",
    "LapGraph": "edgeveil.defences.lapgraph",
    "GraphPrivatizer": "edgeveil.defences.graphprivatizer",
    "defend": "edgeveil.defences.api",
    "Release": "edgeveil.release.release",
    "Target": "edgeveil.release.target",
    "AttackerView": "edgeveil.release.target",
    "attack": "edgeveil.attacks.api",
    "AttackResult": "edgeveil.attacks.base",
    "Budget": "edgeveil.privacy.budget",
    "Guarantee": "edgeveil.privacy.guarantee",
}
_MODULES = ("metrics",)

__all__ = ["__version__", *sorted([*_HOMES, *_MODULES])]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"edgeveil.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'edgeveil' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
