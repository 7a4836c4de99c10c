"""Adam with L2 weight decay (Kingma & Ba 2015), equal to torch.optim.Adam up to rounding.

torch's optimisers import the compiler stack on their first step: a second of CPU and 100 MB per process that a
short training on a CPU never earns back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Adam"]

_FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-8
_FUSED = getattr(torch, "_fused_adam_", None)  # one pass over memory instead of six; not every build has it


def _plain(p: Tensor, grad: Tensor, first: Tensor, second: Tensor, steps: int, lr: float, decay: float) -> None:
    root = math.sqrt(1.0 - _SECOND**steps)
    grad = grad.add(p, alpha=decay) if decay else grad
    first.lerp_(grad, 1.0 - _FIRST)
    second.mul_(_SECOND).addcmul_(grad, grad, value=1.0 - _SECOND)
    p.addcdiv_(first, second.sqrt().add_(_EPSILON * root), value=-lr * root / (1.0 - _FIRST**steps))


def _fused(slots: Sequence[_Slot], decay: float, steps: int, lr: float) -> None:
    assert _FUSED is not None
    _FUSED(
        [s.p for s in slots], [s.p.grad for s in slots], [s.first for s in slots], [s.second for s in slots], [],
        [torch.tensor(float(steps))] * len(slots), lr=lr, beta1=_FIRST, beta2=_SECOND, weight_decay=decay,
        eps=_EPSILON, amsgrad=False, maximize=False,
    )  # fmt: skip


class _Slot(NamedTuple):
    p: Tensor
    first: Tensor
    second: Tensor


class Adam:
    """Moments and steps of (parameters, weight decay) groups; set `lr` between steps to follow a schedule."""

    def __init__(self, groups: Iterable[tuple[Iterable[Tensor], float]], lr: float) -> None:
        self.lr, self.steps = lr, 0
        self._groups = [
            (decay, [_Slot(p, torch.zeros_like(p), torch.zeros_like(p)) for p in params]) for params, decay in groups
        ]

    def clear(self) -> None:
        """Forget the gradients."""
        for _, slots in self._groups:
            for slot in slots:
                slot.p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        self.steps += 1
        for decay, slots in self._groups:
            moving = [s for s in slots if s.p.grad is not None]
            if moving and _FUSED is not None:
                _fused(moving, decay, self.steps, self.lr)
            else:
                for p, first, second in moving:
                    assert p.grad is not None
                    _plain(p, p.grad, first, second, self.steps, self.lr, decay)
