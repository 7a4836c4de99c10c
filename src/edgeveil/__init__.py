"""edgeveil: which edges of a private graph does a GNN give away, and how do you stop it?

Names are loaded on first use, so ``import edgeveil`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from edgeveil import metrics as metrics
    from edgeveil.attacks.attack import AttackResult as AttackResult
    from edgeveil.attacks.run_attack import attack as attack
    from edgeveil.audits.advise import advise as advise
    from edgeveil.defences.defend import defend as defend
    from edgeveil.defences.edgerand import EdgeRand as EdgeRand
    from edgeveil.defences.graphprivatizer.graphprivatizer import GraphPrivatizer as GraphPrivatizer
    from edgeveil.defences.lapgraph import LapGraph as LapGraph
    from edgeveil.defences.lpgnet.lpgnet import LPGNet as LPGNet
    from edgeveil.graph.datasets import load as load
    from edgeveil.graph.files.read_graph import read_graph as read_graph
    from edgeveil.graph.graph import Graph as Graph
    from edgeveil.graph.pyg_data import from_pyg as from_pyg
    from edgeveil.graph.pyg_data import to_pyg as to_pyg
    from edgeveil.models.own_models import OwnModel as OwnModel
    from edgeveil.models.own_models import register_model as register_model
    from edgeveil.plugins import load_plugin as load_plugin
    from edgeveil.privacy.budget import Budget as Budget
    from edgeveil.privacy.guarantee import Guarantee as Guarantee
    from edgeveil.release.release import Release as Release
    from edgeveil.release.target import AttackerView as AttackerView
    from edgeveil.release.target import Target as Target
    from edgeveil.report.audit_report import Audit as Audit
    from edgeveil.report.audit_report import audit as audit

_HOMES = {
    "Graph": "edgeveil.graph.graph",
    "load": "edgeveil.graph.datasets",
    "from_pyg": "edgeveil.graph.pyg_data",
    "to_pyg": "edgeveil.graph.pyg_data",
    "read_graph": "edgeveil.graph.files.read_graph",
    "OwnModel": "edgeveil.models.own_models",
    "register_model": "edgeveil.models.own_models",
    "load_plugin": "edgeveil.plugins",
    "EdgeRand": "edgeveil.defences.edgerand",
    "LapGraph": "edgeveil.defences.lapgraph",
    "GraphPrivatizer": "edgeveil.defences.graphprivatizer.graphprivatizer",
    "LPGNet": "edgeveil.defences.lpgnet.lpgnet",
    "defend": "edgeveil.defences.defend",
    "Release": "edgeveil.release.release",
    "Target": "edgeveil.release.target",
    "AttackerView": "edgeveil.release.target",
    "attack": "edgeveil.attacks.run_attack",
    "AttackResult": "edgeveil.attacks.attack",
    "Budget": "edgeveil.privacy.budget",
    "Guarantee": "edgeveil.privacy.guarantee",
    "Audit": "edgeveil.report.audit_report",
    "audit": "edgeveil.report.audit_report",
    "advise": "edgeveil.audits.advise",
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
