"""The one training loop: full batch for graph models, optional mini-batches for models that read no edges."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeveil.errors import InputError, TrainingError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models import memo as memos
from edgeveil.models.adam import Adam
from edgeveil.models.blocks import small_blocks
from edgeveil.models.dense_steps import DenseWork, suits
from edgeveil.models.drop import Drop
from edgeveil.models.kernels import threads
from edgeveil.models.kernels.operand import as_operand
from edgeveil.models.module import ModuleModel
from edgeveil.models.network import Model
from edgeveil.models.objective import CrossEntropy, Objective
from edgeveil.models.own_fit import fit_own, trains_itself
from edgeveil.models.settings import TrainSpec
from edgeveil.models.structure import Structure
from edgeveil.seeds import derive

__all__ = ["EvalSet", "History", "Progress", "Work", "fit", "run_epochs"]

Progress = Callable[[int, int, dict[str, float]], None]
"""Called after every epoch with (epochs done, epochs planned, the epoch's figures)."""


@dataclass(frozen=True, eq=False)
class EvalSet:
    """Validation nodes of another graph than the training one (inductive settings)."""

    x: FeatureMatrix
    structure: Structure
    y: NDArray[Any]
    mask: NDArray[np.bool_]


@dataclass(frozen=True)
class History:
    """What happened. Epochs count from 1; validation figures are NaN where nothing asked for them."""

    train_loss: list[float] = field(default_factory=list)
    val_loss: list[float] = field(default_factory=list)
    val_score: list[float] = field(default_factory=list)
    kept_epoch: int = 0
    stopped_early: bool = False
    seconds: float = 0.0

    @property
    def epochs(self) -> int:
        """Epochs run."""
        return len(self.train_loss)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready dictionary."""
        return asdict(self)


class Loss(Protocol):
    """A scalar to be minimised, such as torch's."""

    def detach(self) -> Tensor:
        """Its value."""
        ...

    def backward(self) -> None:
        """Give every parameter its gradient."""
        ...


class Work(Protocol):
    """The losses of one run: an epoch's steps, and what validation says."""

    model: Model
    spec: TrainSpec
    objective: Objective

    def steps(self) -> Iterator[Loss]:
        """Training losses of one epoch, one optimiser step each."""
        ...

    def validate(self) -> tuple[float, float] | None:
        """Loss and score on the validation nodes, in evaluation mode."""
        ...


class _Work:
    """The losses of one run: what to compute per step, and how to validate.

    With the usual loss only the rows that count are computed: the training rows of a model without edges, the
    neighbourhoods of few training nodes otherwise.
    """

    def __init__(
        self,
        model: Model,
        x: FeatureMatrix,
        structure: Structure,
        spec: TrainSpec,
        objective: Objective,
        validation: EvalSet | None,
    ) -> None:
        self.model, self.spec, self.objective, self.validation = model, spec, objective, validation
        self.x, self.structure = x, structure.remembering()
        self.dtype = next(model.parameters()).dtype
        self._cuts: dict[str, tuple[FeatureMatrix, Structure] | None] = {}
        self._parts = list(model.modules())
        self._first: Tensor | None = None
        self._shares = False

    def _forward(self, x: FeatureMatrix, structure: Structure) -> Tensor:
        return self.model(as_operand(x, self.dtype), structure)  # type: ignore[no-any-return]

    def _whole(self) -> Tensor:
        """Logits of all nodes. Validation and the next step share the first layer: same weights, no dropout yet."""
        self._shares |= torch.is_grad_enabled() and self.model.spec.fanout is None
        if not self._shares:
            return self._forward(self.x, self.structure)
        if self._first is None:
            with torch.enable_grad():
                self._first = self.model.first(as_operand(self.x, self.dtype), self.structure)
        if not torch.is_grad_enabled():
            return self.model.rest(self._first.detach().clone(), self.structure)
        lent, self._first = self._first, None
        return self.model.rest(lent, self.structure)

    def _rows(self, name: str, nodes: Tensor) -> Tensor:
        """Logits of the given nodes, which must be sorted."""
        if name not in self._cuts:
            self._cuts[name] = self._cut(nodes.numpy())
        cut = self._cuts[name]
        return self._whole()[nodes] if cut is None else self._forward(*cut)

    def _cut(self, nodes: NDArray[Any]) -> tuple[FeatureMatrix, Structure] | None:
        spec = self.model.spec
        if spec.local:
            return self.x.take(nodes), self.structure
        kind = spec.architecture
        whole = spec.kprop or kind.rowwise or not kind.layered
        blocks = None if whole else small_blocks(self.structure, nodes, spec.layers)
        return None if blocks is None else (self.x.take(blocks.inputs), blocks)

    def steps(self) -> Iterator[Tensor]:
        """Training losses of one epoch, one optimiser step each."""
        if not isinstance(self.objective, CrossEntropy):
            yield self.objective.train_loss(self._whole())
            return
        train, y = self.objective.train, self.objective.y
        size = self.spec.batch_size or len(train)
        if size >= len(train):
            yield self.objective.loss(self._rows("train", train), y[train])
            return
        order = train[torch.randperm(len(train))]
        for part in torch.split(order, size):
            logits = self._forward(self.x.take(part.numpy()), self.structure)
            yield self.objective.loss(logits, y[part]) * (len(part) / len(train))

    def validate(self) -> tuple[float, float] | None:
        """Loss and score on the validation nodes, in evaluation mode."""
        self._mode(training=False)
        try:
            with torch.no_grad():
                return self._validate()
        finally:
            self._mode(training=True)

    def _mode(self, *, training: bool) -> None:
        """`model.train(training)`, which on own layers costs as much as a small product."""
        if isinstance(self.model, ModuleModel):
            self.model.train(training)
            return
        for part in self._parts:
            object.__setattr__(part, "training", training)

    def _validate(self) -> tuple[float, float] | None:
        if self.validation is not None:
            other = self.validation
            logits = self._forward(other.x, other.structure)
            if not isinstance(self.objective, CrossEntropy):
                return self.objective.validate(logits)
            return CrossEntropy(other.y, np.empty(0, np.int64), np.flatnonzero(other.mask)).validate(logits)
        if not isinstance(self.objective, CrossEntropy):
            return self.objective.validate(self._whole())
        if self.objective.val is None:
            return None
        return self.objective.measure(self._rows("val", self.objective.val), self.objective.y[self.objective.val])


@dataclass
class _State:
    """Everything the loop carries from one epoch to the next."""

    epoch: int = 0  # epochs completed
    best_value: float = np.inf
    best_epoch: int = 0
    waited: int = 0
    lowest_val: float = np.inf
    stopped: bool = False
    train_loss: list[float] = field(default_factory=list)
    val_loss: list[float] = field(default_factory=list)
    val_score: list[float] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)


def fit(
    model: Model,
    x: Any,
    structure: Structure,
    y: NDArray[Any],
    train_mask: NDArray[np.bool_],
    val_mask: NDArray[np.bool_] | None,
    spec: TrainSpec,
    *,
    seed: int,
    multilabel: bool = False,
    progress: Progress | None = None,
    validation: EvalSet | None = None,
    objective: Objective | None = None,
    num_threads: int | None = None,
) -> History:
    """Train in place; the model ends in evaluation mode with the weights that `spec.keep` names.

    Same seed, same data, same result. `objective` replaces the cross-entropy; `validation` validates on another graph
    (an own objective judges the logits there).
    """
    x = FeatureMatrix.wrap(x)
    train = np.flatnonzero(train_mask)
    val = None if val_mask is None else np.flatnonzero(val_mask)
    if trains_itself(model):
        started = time.perf_counter()
        fit_own(model, x, structure, y, train_mask, val_mask, spec, seed, noisy=objective is not None)
        return History(seconds=time.perf_counter() - started)
    has_val = bool(val is not None and len(val)) or validation is not None
    _check(model, spec, y, train, multilabel, has_val=has_val, noisy=isinstance(objective, Drop))
    goal = objective or CrossEntropy(y, train, val, class_weights=spec.class_weights)
    work = _work(model, x, structure, spec, goal, validation)
    identity = "" if objective is None else getattr(objective, "identity", None)
    memo = memos.active() if validation is None and identity is not None else None
    if memo is None:
        return run_epochs(work, seed=seed, progress=progress, num_threads=num_threads)
    same = f"{_key(model, x, structure, y, train, val, spec, seed)} {identity} {memos.weights_digest(model)}"
    known: History | None = memo.recall(f"{same} {spec.keep}", model)
    if known is not None:
        return known
    own = isinstance(model, ModuleModel)  # of somebody else's code: validating it might draw random numbers
    ended = None if own or spec.keep == "last" else lambda last: memo.keep(f"{same} last", model, last)
    history = run_epochs(work, seed=seed, progress=progress, num_threads=num_threads, ended=ended)
    memo.keep(f"{same} {spec.keep}", model, history)
    return history


def _work(
    model: Model,
    x: FeatureMatrix,
    structure: Structure,
    spec: TrainSpec,
    objective: Objective,
    validation: EvalSet | None,
) -> Work:
    if validation is None and isinstance(objective, CrossEntropy) and suits(model, x, spec, objective):
        return DenseWork(model, x, spec, objective)
    return _Work(model, x, structure, spec, objective, validation)


def run_epochs(
    work: Work,
    *,
    seed: int,
    progress: Progress | None = None,
    num_threads: int | None = None,
    ended: Callable[[History], None] | None = None,
) -> History:
    """Train `work.model` in place, wherever its rows come from, and leave it with the weights that its spec keeps.

    `ended` is called while the model still has the weights of the last epoch, with the history of who keeps those.
    """
    model, state, started = work.model, _State(), time.perf_counter()
    optimizer = _optimizer(model, work.spec)
    with threads.limited(num_threads), threads.flushing(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "model", "training"))
        _run(work, optimizer, state, progress)
    seconds = time.perf_counter() - started
    last = History(state.train_loss, state.val_loss, state.val_score, state.epoch, state.stopped, seconds)
    if ended is not None:
        ended(last)
    if state.best:
        model.load_state_dict(state.best)
    model.eval()
    return replace(last, kept_epoch=state.best_epoch) if state.best else last


def _check(model: Model, spec: TrainSpec, y: Any, train: Any, multilabel: bool, *, has_val: bool, noisy: bool) -> None:
    if y is None or (np.asarray(y).ndim == 2) != multilabel:
        shape = None if y is None else np.shape(y)
        raise InputError(
            f"multilabel={multilabel} does not fit labels of shape {shape}; labels are [n] or, multi-label, [n, L]"
        )
    if not len(train):
        raise TrainingError("nothing to learn from: the training mask is empty; choose a split with training nodes")
    if spec.keep == "reported" and not noisy:
        raise InputError(
            "keep='reported' is the rule of GraphPrivatizer's code for noisy labels; "
            "use it with gp-t, gp-m, rr or lpgnn, and keep='best-val-loss' elsewhere"
        )
    if spec.needs_validation and not has_val:
        raise InputError(
            f"keep={spec.keep!r} with patience={spec.patience} needs validation nodes and there are none; "
            "use spec.without_validation() or a split that has some"
        )
    if spec.batch_size is not None and not model.spec.local:
        raise InputError(
            f"batch_size={spec.batch_size} works for models that read no edges (mlp without kprop); "
            f"{model.spec.name!r} trains on the full batch, so leave batch_size out"
        )


def _optimizer(model: Model, spec: TrainSpec) -> Adam:
    later = 0.0 if spec.l2_first_layer_only else spec.weight_decay
    decays = [spec.weight_decay] + [later] * (len(model.layers) - 1)
    return Adam([(layer.parameters(), decay) for layer, decay in zip(model.layers, decays, strict=True)], spec.lr)


def _key(
    model: Model, x: FeatureMatrix, structure: Structure, y: Any, train: Any, val: Any, spec: TrainSpec, seed: int
) -> str:
    """Identity of a training but for which epoch's weights are kept: its settings and its data."""
    settings = replace(spec, keep="last").to_json()
    parts = {"model": model.spec.to_json(), "train": settings, "seed": int(seed), "shape": x.shape}
    if isinstance(model, ModuleModel):
        parts["module"] = model.source.to_json()
    values = [x.values.data, x.values.indices, x.values.indptr] if x.is_sparse else [x.values]
    arrays = [y, train, [] if val is None else val, *values, [] if x.shift is None else x.shift]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    near = structure.adjacency
    for array in (*arrays, near.indptr, near.indices, near.data):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _run(work: Work, optimizer: Adam, state: _State, progress: Progress | None) -> None:
    model, spec = work.model, work.spec
    model.train()
    while state.epoch < spec.epochs and not state.stopped:
        if spec.schedule == "linear":
            optimizer.lr = spec.lr * (1.0 - state.epoch / spec.epochs)
        loss = _epoch(work, optimizer, state)
        state.epoch += 1
        last = state.epoch == spec.epochs
        found = work.validate() if spec.needs_validation or progress is not None or last else None
        val_loss, val_score = found or (math.nan, math.nan)
        state.train_loss.append(loss)
        state.val_loss.append(val_loss)
        state.val_score.append(val_score)
        if spec.keep != "reported" or _reports(work.objective):
            _judge(model, spec, state, val_loss, val_score)
        if progress is not None:
            progress(state.epoch, spec.epochs, {"loss": loss, "val_loss": val_loss, "val_score": val_score})


def _epoch(work: Work, optimizer: Adam, state: _State) -> float:
    before = _snapshot(work.model) if work.spec.keep == "least-train-loss" else {}
    total = 0.0
    for loss in work.steps():
        value = float(loss.detach())
        if not math.isfinite(value):
            raise TrainingError(
                f"the training loss became {value} in epoch {state.epoch + 1}: the weights have diverged or the "
                f"features are extreme; lower the learning rate (now {work.spec.lr:g}) or scale the features"
            )
        optimizer.clear()
        loss.backward()
        optimizer.step()
        total += value
    if before and total < state.best_value:
        state.best, state.best_value, state.best_epoch = before, total, state.epoch
    return total


def _reports(objective: Objective) -> bool:
    """Whether GraphPrivatizer's code would report the epoch that was just validated."""
    return isinstance(objective, Drop) and objective.reports


def _judge(model: Model, spec: TrainSpec, state: _State, val_loss: float, val_score: float) -> None:
    """Keep the weights if they are the best so far; count the epochs without a better validation loss."""
    if spec.keep.startswith("best-val") or spec.keep == "reported":
        value = -val_score if spec.keep == "best-val-score" else val_loss
        if value < state.best_value:
            state.best, state.best_value, state.best_epoch = _snapshot(model, state.best), value, state.epoch
    if spec.patience is not None:
        better = val_loss < state.lowest_val
        state.lowest_val = min(state.lowest_val, val_loss)
        state.waited = 0 if better else state.waited + 1
        state.stopped = state.waited >= spec.patience


def _snapshot(model: Model, into: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
    """Copies of the weights, in the arrays of an older snapshot where there is one."""
    if into:
        return {name: into[name].copy_(value) for name, value in model.state_dict().items()}
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
