"""How far a module lets a feature travel, found by asking it."""

from __future__ import annotations

import torch
from torch import Tensor

from edgeveil.models.module import ModuleModel, call_module

__all__ = ["LENGTH", "reach"]

LENGTH = 33  # nodes of the path that is asked; a module that reaches its end counts as unbounded
_APART = 4  # nodes of a second path: whoever is heard there is heard everywhere


def reach(model: ModuleModel) -> int | None:
    """Hops from a node to the furthest output that its features can change; None where there is no such bound.

    One end of a path is given values that are not numbers, which no zero weight and no dead unit holds back, and then
    large random ones, which also pass code that replaces such values.
    """
    generator = torch.Generator().manual_seed(0)
    index = _paths()
    dtype = next(model.parameters()).dtype
    x = torch.randn(LENGTH + _APART, model.num_features, generator=generator, dtype=dtype)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            base = call_module(model, x, index, None)
            hit = torch.zeros(len(x), dtype=torch.bool)
            for scale in (float("nan"), 3.0, -10.0):
                moved = x.clone()
                moved[0] = scale * torch.randn(x.shape[1], generator=generator, dtype=dtype)
                hit |= (call_module(model, moved, index, None) != base).any(dim=1)
    finally:
        model.train(was_training)
    furthest = int(hit[:LENGTH].nonzero().max()) if hit[:LENGTH].any() else 0
    return None if hit[LENGTH:].any() or furthest == LENGTH - 1 else furthest


def _paths() -> Tensor:
    here = torch.arange(LENGTH + _APART - 1)
    here = here[here != LENGTH - 1]
    there = torch.stack([here, here + 1])
    return torch.cat([there, there.flip(0)], dim=1)
