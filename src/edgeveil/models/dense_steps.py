"""Epochs of a plain MLP by the formulas that autograd would find, bit for bit, at half the price.

Small read-outs (hundreds of rows, hundreds of epochs) spend most of a step on bookkeeping: modules, recorded
operations, signatures. Here a step is its dozen of matrix operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.kernels.operand import as_operand
from edgeveil.models.kernels.ops import survivors
from edgeveil.models.kernels.spmm import SparseMatrix, csr_product
from edgeveil.models.mlp_layers import DenseLayer
from edgeveil.models.network import Linear, Model
from edgeveil.models.objective import CrossEntropy, Objective, score
from edgeveil.models.settings import TrainSpec

__all__ = ["DenseWork", "suits"]

_MEAN, _IGNORED = 1, -100  # torch's codes: the loss is a mean, and no label is left out
_ops = torch.ops.aten


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some nodes: the left factor of the first product, and their labels."""

    values: SparseMatrix | Tensor
    y: Tensor

    @classmethod
    def of(cls, x: FeatureMatrix, dtype: torch.dtype, objective: CrossEntropy, nodes: Tensor) -> _Rows:
        return cls(as_operand(x.take(nodes.numpy()), dtype).values, objective.y[nodes])

    def times(self, weight: Tensor) -> Tensor:
        """X W."""
        if isinstance(self.values, SparseMatrix):
            return csr_product(self.values.tensor(weight.dtype), weight)
        return self.values.mm(weight)

    def turned_times(self, grad: Tensor) -> Tensor:
        """X' G."""
        if isinstance(self.values, SparseMatrix):
            return csr_product(self.values.T.tensor(grad.dtype), grad)
        return self.values.t().mm(grad)


def suits(model: Model, x: FeatureMatrix, spec: TrainSpec, objective: Objective) -> bool:
    """Whether this is a full-batch MLP with ReLU and softmax loss on features without shift."""
    if type(model) is not Model or not isinstance(objective, CrossEntropy):
        return False
    plain = len(_linear(model)) == len(model.layers) and model.spec.local and model.spec.activation == "relu"
    if not plain or objective.multilabel or objective.class_weights:
        return False
    whole = spec.batch_size is None or spec.batch_size >= len(objective.train)
    unshifted = x.shift is None and x.base is None
    sizes = (len(objective.train), *(size for part in _linear(model) for size in part.weight.shape))
    return whole and unshifted and min(sizes) > 1  # torch multiplies single rows and columns in another order


def _linear(model: Model) -> list[Linear]:
    """The layers that are fully connected."""
    return [layer.linear for layer in model.layers if isinstance(layer, DenseLayer)]


class DenseWork:
    """The losses of one run (`edgeveil.models.train.Work`)."""

    def __init__(self, model: Model, x: FeatureMatrix, spec: TrainSpec, objective: CrossEntropy) -> None:
        self.model, self.spec = model, spec
        self.objective: Objective = objective
        dtype = next(model.parameters()).dtype
        self._weights = [part.weight for part in _linear(model)]
        self._biases = [part.bias for part in _linear(model)]
        self._train = _Rows.of(x, dtype, objective, objective.train)
        self._val = None if objective.val is None else _Rows.of(x, dtype, objective, objective.val)
        self._one = torch.ones((), dtype=dtype)

    def steps(self) -> Iterator[_Step]:
        """One full-batch step."""
        with torch.no_grad():
            yield _Step(self)

    def validate(self) -> tuple[float, float] | None:
        """Loss and score on the validation nodes."""
        if self._val is None:
            return None
        with torch.no_grad():
            out = self._layer(0, self._val.times(self._weights[0]))
            for depth in range(1, len(self._weights)):
                out = self._layer(depth, out.relu_().mm(self._weights[depth]))
            return float(self._loss(out, self._val.y)[1]), score(out, self._val.y)

    def _layer(self, depth: int, product: Tensor) -> Tensor:
        bias = self._biases[depth]
        return product if bias is None else product.add_(bias)

    @staticmethod
    def _loss(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities, their mean loss and its divisor."""
        said = torch.log_softmax(logits, 1)
        loss, total = _ops.nll_loss_forward(said, y, None, _MEAN, _IGNORED)
        return said, loss, total


class _Step:
    """A forward pass that remembers what its backward pass needs; stands where autograd's loss would."""

    def __init__(self, work: DenseWork) -> None:
        self._work, self._hidden, dropout = work, list[Tensor](), work.model.spec.dropout
        out = work._layer(0, work._train.times(work._weights[0]))
        for depth in range(1, len(work._weights)):
            out = torch.clamp_min(out, 0.0)
            if dropout:
                mask, self._scale = survivors(out.shape, dropout, out.dtype)
                out.mul_(mask)
            self._hidden.append(out)
            out = work._layer(depth, out.mm(work._weights[depth]))
        self._said, self._value, self._total = work._loss(out, work._train.y)

    def detach(self) -> Tensor:
        """The loss."""
        return self._value

    def backward(self) -> None:
        """Give every parameter its gradient."""
        work, said = self._work, self._said
        grad = _ops.nll_loss_backward(work._one, said, work._train.y, None, _MEAN, _IGNORED, self._total)
        grad = _ops._log_softmax_backward_data(grad, said, 1, said.dtype)
        for depth in range(len(work._weights) - 1, 0, -1):
            below = self._hidden[depth - 1]
            self._give(depth, below.t().mm(grad), grad)
            grad = _ops.threshold_backward(grad.mm(work._weights[depth].t()), below, 0.0)
            if work.model.spec.dropout:
                grad.mul_(self._scale)
        self._give(0, work._train.turned_times(grad), grad)

    def _give(self, depth: int, to_weight: Tensor, grad: Tensor) -> None:
        self._work._weights[depth].grad = to_weight
        bias = self._work._biases[depth]
        if bias is not None:
            bias.grad = grad.sum(0)
