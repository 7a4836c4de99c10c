"""How a model is trained: the settings of one run, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.models.spec import Settings

__all__ = ["KEEPS", "SCHEDULES", "TrainSpec"]

SCHEDULES = ("constant", "linear")
KEEPS = ("last", "best-val-loss", "best-val-score", "least-train-loss", "reported")


@dataclass(frozen=True, kw_only=True)
class TrainSpec(Settings):
    """Adam with L2 weight decay on the cross-entropy.

    schedule: "linear" lowers the learning rate to 0 over the epochs (LPGNet). keep: which epoch's weights survive; ties
    go to the earlier one; "reported" is the rule of GraphPrivatizer's code, for training on noisy labels (`Drop`).
    patience: stop after that many epochs without a better validation loss. class_weights: weigh classes by inverse
    frequency (off in all three papers). batch_size: rows per step, for models that read no edges.
    l2_first_layer_only: decay the first layer's weights only (Kipf & Welling).
    """

    lr: float = 0.01
    weight_decay: float = 5e-4
    epochs: int = 200
    schedule: str = "constant"
    keep: str = "last"
    patience: int | None = None
    class_weights: bool = False
    batch_size: int | None = None
    l2_first_layer_only: bool = False

    def __post_init__(self) -> None:
        for what, value, choices in (("schedule", self.schedule, SCHEDULES), ("keep", self.keep, KEEPS)):
            if value not in choices:
                raise UnknownNameError(what, value, choices)
        if not self.lr > 0 or not self.weight_decay >= 0:
            raise InputError(f"lr must be > 0 and weight_decay >= 0, got {self.lr} and {self.weight_decay}")
        for key in ("epochs", "patience", "batch_size"):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise InputError(f"{key} must be at least 1, got {value}")

    @property
    def needs_validation(self) -> bool:
        """Whether the run cannot be decided without validation nodes."""
        return self.keep.startswith("best-val") or self.keep == "reported" or self.patience is not None

    def without_validation(self) -> TrainSpec:
        """The same run for data without validation nodes: least training loss, no early stopping."""
        if not self.needs_validation:
            return self
        keep = self.keep if self.keep in ("last", "least-train-loss") else "least-train-loss"
        return replace(self, keep=keep, patience=None)
