"""The learner: seven node classifiers on our own sparse operators, one training loop, the papers' settings.

Names are loaded on first use, so that reading a model name or a preset does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgeveil.models.architectures import MODELS, Architecture
    from edgeveil.models.assemble import build, load_arrays, predict_logits, state_arrays
    from edgeveil.models.network import Model
    from edgeveil.models.objective import CrossEntropy, Objective
    from edgeveil.models.presets import Preset, preset
    from edgeveil.models.settings import TrainSpec
    from edgeveil.models.spec import ModelSpec, layers_reach
    from edgeveil.models.structure import Structure
    from edgeveil.models.train import EvalSet, History, fit

_HOME = {
    "Model": "network",
    "build": "assemble",
    "load_arrays": "assemble",
    "predict_logits": "assemble",
    "state_arrays": "assemble",
    "CrossEntropy": "objective",
    "Objective": "objective",
    "Preset": "presets",
    "preset": "presets",
    "TrainSpec": "settings",
    "MODELS": "architectures",
    "Architecture": "architectures",
    "ModelSpec": "spec",
    "layers_reach": "spec",
    "Structure": "structure",
    "EvalSet": "train",
    "History": "train",
    "fit": "train",
}

__all__ = [
    "MODELS",
    "Architecture",
    "CrossEntropy",
    "EvalSet",
    "History",
    "Model",
    "ModelSpec",
    "Objective",
    "Preset",
    "Structure",
    "TrainSpec",
    "build",
    "fit",
    "layers_reach",
    "load_arrays",
    "predict_logits",
    "preset",
    "state_arrays",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
