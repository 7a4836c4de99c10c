"""What training minimises and what validation reports."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from edgeveil.errors import TrainingError

__all__ = ["CrossEntropy", "Objective", "score"]


class Objective(Protocol):
    """A loss over the logits of all nodes; a defence with its own loss (label denoising) passes one to `fit`."""

    def train_loss(self, logits: Tensor) -> Tensor:
        """The scalar to be minimised."""
        ...

    def validate(self, logits: Tensor) -> tuple[float, float] | None:
        """(loss, score) on validation nodes, or None when there are none."""
        ...


def score(logits: Tensor, y: Tensor) -> float:
    """Accuracy, or micro-F1 of multi-label predictions at threshold 0."""
    if y.ndim == 1:
        return float((logits.argmax(1) == y).double().mean())
    said, true = logits > 0, y > 0.5
    hits = float((said & true).sum())
    total = float(said.sum() + true.sum())
    return 2 * hits / total if total else 0.0


class CrossEntropy:
    """Softmax cross-entropy (labels [n]) or mean binary cross-entropy (labels [n, L]) on chosen rows."""

    def __init__(
        self, y: NDArray[Any], train: NDArray[Any], val: NDArray[Any] | None = None, *, class_weights: bool = False
    ) -> None:
        labels = np.asarray(y)
        self.multilabel = labels.ndim == 2
        if not self.multilabel and len(train) and labels[train].min() < 0:
            raise TrainingError("a training node has no label (y = -1); drop it from the training mask")
        self.y = torch.tensor(labels, dtype=torch.float32 if self.multilabel else torch.int64)
        self.train, self.val = torch.tensor(train), None if val is None or not len(val) else torch.tensor(val)
        self.class_weights = class_weights
        self._weight: Tensor | None = None

    def loss(self, logits: Tensor, y: Tensor) -> Tensor:
        """Loss of these rows."""
        if self.multilabel:
            return F.binary_cross_entropy_with_logits(logits, y.to(logits.dtype))
        if self.class_weights and self._weight is None:
            counts = torch.bincount(self.y[self.train], minlength=logits.shape[1]).double()
            self._weight = (len(self.train) / (logits.shape[1] * counts.clamp(min=1))).to(logits.dtype)
        return F.cross_entropy(logits, y, weight=self._weight)

    def train_loss(self, logits: Tensor) -> Tensor:
        """Loss on the training rows."""
        return self.loss(logits[self.train], self.y[self.train])

    def validate(self, logits: Tensor) -> tuple[float, float] | None:
        """Loss and score on the validation rows."""
        return None if self.val is None else self.measure(logits[self.val], self.y[self.val])

    def measure(self, logits: Tensor, y: Tensor) -> tuple[float, float]:
        """Loss and score of these rows."""
        return float(self.loss(logits, y)), score(logits, y)
