"""What leaves the server of a prediction: logits, probabilities, the k likeliest classes, or labels; maybe rounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError

__all__ = ["COARSE", "Answer", "Output", "OutputPolicy"]

Output = Literal["logits", "probabilities", "labels"]
Float = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """Rows as they may be sent: `values` [m, c] or [m, k] with `classes` [m, k], or `labels` [m] / [m, c] of 0/1."""

    kind: Output
    values: Float | None = None
    classes: NDArray[np.int64] | None = None
    labels: NDArray[np.int64] | None = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The parts that are there."""
        parts = {"values": self.values, "classes": self.classes, "labels": self.labels}
        return {name: part for name, part in parts.items() if part is not None}

    def rows(self, at: NDArray[np.int64]) -> Answer:
        """Some of the rows."""
        return Answer(self.kind, **{name: part[at] for name, part in self.arrays().items()})


COARSE = 2  # decimals of probabilities where nothing sound protects edges and the operator has not said


@dataclass(frozen=True)
class OutputPolicy:
    """The operator's choice. `decimals` rounds numbers; `top_k` keeps only the k largest per node."""

    kind: Output = "probabilities"
    decimals: int | None = None
    top_k: int | None = None
    multilabel: bool = False

    def __post_init__(self) -> None:
        if self.kind == "labels" and (self.decimals is not None or self.top_k is not None):
            raise InputError(
                "labels are not rounded and have no top k; drop decimals and top_k, or answer probabilities"
            )
        if self.decimals is not None and not 0 <= self.decimals <= 15:
            raise InputError(f"decimals must lie in 0..15, got {self.decimals}")
        if self.top_k is not None and self.top_k < 1:
            raise InputError(f"top_k must be at least 1, got {self.top_k}")

    def apply(self, logits: Float) -> Answer:
        """Reduce logits to what may be sent."""
        if self.kind == "labels":
            labels = (logits > 0).astype(np.int64) if self.multilabel else logits.argmax(axis=1)
            return Answer("labels", labels=labels)
        values = logits if self.kind == "logits" else probabilities(logits, self.multilabel)
        classes = None
        if self.top_k is not None and self.top_k < values.shape[1]:
            classes = np.argsort(-values, axis=1, kind="stable")[:, : self.top_k]
            values = np.take_along_axis(values, classes, axis=1)
        if self.decimals is not None:
            values = np.round(values, self.decimals)
        return Answer(self.kind, values=values, classes=classes)

    def describe(self) -> dict[str, Any]:
        """Plain data for `/v1/model`."""
        return {"kind": self.kind, "decimals": self.decimals, "top_k": self.top_k}


def probabilities(logits: Float, multilabel: bool) -> Float:
    """Softmax, or one sigmoid per class."""
    if multilabel:
        return 1 / (1 + np.exp(-np.clip(logits, -700, 700)))
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    out: Float = shifted / shifted.sum(axis=1, keepdims=True)
    return out
