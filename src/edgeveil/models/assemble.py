"""From a description to a model, from a model to arrays and back, and from features to logits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call

from edgeveil.errors import InputError, StorageError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.kernels import threads
from edgeveil.models.kernels.operand import as_operand
from edgeveil.models.network import Model
from edgeveil.models.spec import ModelSpec
from edgeveil.seeds import derive

__all__ = ["build", "load_arrays", "predict_logits", "state_arrays", "with_reach"]

_PIECE = 1 << 15


def build(spec: ModelSpec, num_features: int, num_outputs: int, seed: int) -> Model:
    """A freshly initialised float32 model; torch's global generator is left as it was."""
    if num_features < 1 or num_outputs < 1:
        raise InputError(f"a model needs at least one feature and one output, got {num_features} and {num_outputs}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "model", "weights"))
        return spec.architecture.build(spec, num_features, num_outputs)


def with_reach(spec: ModelSpec, num_features: int, num_outputs: int) -> ModelSpec:
    """The spec of a module from outside with `layers` as it was found: 1 where a module has no bound or no edge."""
    if spec.architecture.layered:
        return spec
    from edgeveil.models.reach import reach

    model: Any = build(spec, num_features, num_outputs, seed=0)
    return replace(spec, layers=reach(model) or 1)


def state_arrays(model: Model) -> dict[str, NDArray[Any]]:
    """Copies of all weights by name."""
    return {name: value.detach().numpy().copy() for name, value in model.stored.state_dict().items()}


def load_arrays(model: Model, arrays: dict[str, NDArray[Any]]) -> None:
    """Put weights from `state_arrays` into a model built from the same spec and sizes."""
    expected = {name: tuple(value.shape) for name, value in model.stored.state_dict().items()}
    given = {name: tuple(value.shape) for name, value in arrays.items()}
    if expected != given:
        odd = sorted(k for k in expected.keys() | given.keys() if expected.get(k) != given.get(k))
        raise StorageError(
            f"these weights belong to another model: {odd[0]} is {given.get(odd[0], 'missing')} in the file and "
            f"{expected.get(odd[0], 'absent')} in the model ({len(odd)} such arrays); load them into the model "
            "they came from"
        )
    model.stored.load_state_dict({name: torch.tensor(value) for name, value in arrays.items()})


def predict_logits(
    model: Model, x: FeatureMatrix, adjacency: Any, dtype: str = "float64", *, num_threads: int | None = None
) -> NDArray[Any]:
    """Logits of all nodes in evaluation mode. `adjacency` may be a prepared `Structure`, which saves work."""
    kind: torch.dtype = getattr(torch, dtype)
    weights = {
        name: value.detach().to(kind) if value.is_floating_point() else value
        for name, value in model.state_dict().items()
    }
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), threads.limited(num_threads), threads.flushing():
            structure = model.prepare(adjacency)
            parts = [functional_call(model, weights, (as_operand(part, kind), structure)) for part in _pieces(model, x)]
    finally:
        model.train(was_training)
    logits: NDArray[Any] = (parts[0] if len(parts) == 1 else torch.cat(parts)).numpy()
    return logits


def _pieces(model: Model, x: Any) -> Iterator[FeatureMatrix]:
    """All rows at once; dense rows that no other row depends on in pieces, so that a memory map is never read whole."""
    x = FeatureMatrix.wrap(x)
    rows = x.shape[0]
    if not model.spec.local or x.is_sparse or rows <= _PIECE:
        yield x
        return
    for at in range(0, rows, _PIECE):
        yield x.take(np.arange(at, min(at + _PIECE, rows)))
