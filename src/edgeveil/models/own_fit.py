"""Training that a module brings along: a `fit` function, or the two methods of Lightning that training needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from edgeveil.errors import EdgeveilError, InputError, MissingExtra, TrainingError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.kernels import threads
from edgeveil.models.kernels.operand import as_operand
from edgeveil.models.module import ModuleModel, as_edges
from edgeveil.models.network import Model
from edgeveil.models.settings import TrainSpec
from edgeveil.models.structure import Structure
from edgeveil.seeds import derive

__all__ = ["fit_own", "trains_itself"]


def trains_itself(model: Model) -> bool:
    """Whether a module brings its own training."""
    if not isinstance(model, ModuleModel):
        return False
    return model.own.fit is not None or _lightning(model.module)


def _lightning(module: nn.Module) -> bool:
    return all(callable(getattr(module, name, None)) for name in ("training_step", "configure_optimizers"))


def fit_own(
    model: Model,
    x: FeatureMatrix,
    structure: Structure,
    y: NDArray[Any],
    train_mask: NDArray[np.bool_],
    val_mask: NDArray[np.bool_] | None,
    spec: TrainSpec,
    seed: int,
    *,
    noisy: bool = False,
) -> None:
    """Train in place on a PyG `Data` of the graph that the defence lets the model see; ends in evaluation mode.

    Labels of nodes outside the masks are -1 there (0 where there are several): training has no business with them.
    `noisy`: labels went through randomised response and only our loop knows the loss that undoes it.
    """
    assert isinstance(model, ModuleModel)
    if noisy:
        raise InputError(
            f"{model.own.name!r} trains itself, but this defence randomises labels and needs its own loss; leave fit "
            "out, or pass epsilon_y=inf"
        )
    val = np.zeros(len(train_mask), bool) if val_mask is None else np.asarray(val_mask)
    data = _data(model, x, structure, y, np.asarray(train_mask), val)
    module = model.module.train()
    with threads.limited(None), threads.flushing(), torch.random.fork_rng(devices=[]):
        number = derive(seed, "model", "training") % 2**31
        torch.manual_seed(number)
        if model.own.fit is None:
            with _explained(model):
                _steps(module, data, spec.epochs)
        else:
            _call_fit(model, data, number)
    bad = next((n for n, v in module.state_dict().items() if v.is_floating_point() and not v.isfinite().all()), None)
    if bad is not None:
        raise TrainingError(f"after its own training the weights {bad!r} of {model.own.name!r} are not finite")
    model.eval()


def _call_fit(model: ModuleModel, data: Any, seed: int) -> None:
    """The caller's function trains in place, or returns a module of the same kind whose weights are taken over."""
    assert model.own.fit is not None
    with _explained(model):
        out = model.own.fit(model.module, data, data.train_mask, data.val_mask, seed)
        if isinstance(out, nn.Module) and out is not model.module:
            model.module.load_state_dict(out.state_dict())


@contextmanager
def _explained(model: ModuleModel) -> Iterator[None]:
    try:
        yield
    except EdgeveilError:
        raise
    except Exception as error:
        first = next(iter(str(error).splitlines()), "")
        raise TrainingError(
            f"the own training of {model.own.name!r} failed: {type(error).__name__}: {first} (a fit function is called "
            "as fit(module, data, train_mask, val_mask, seed); it trains in place or returns a module of the same kind)"
        ) from error


def _data(model: ModuleModel, x: FeatureMatrix, structure: Structure, y: Any, train: Any, val: Any) -> Any:
    try:
        from torch_geometric.data import Data
    except ImportError as error:
        raise MissingExtra("a model that trains itself", "pyg") from error
    index, weight = as_edges(structure)
    labels = np.array(y, np.float32 if np.ndim(y) == 2 else np.int64)
    labels[~(train | val)] = 0 if labels.ndim == 2 else -1
    dense = model.first(as_operand(x, "float32"), structure)
    out = Data(x=dense, edge_index=index, y=torch.from_numpy(labels))
    out.train_mask, out.val_mask = torch.from_numpy(train.copy()), torch.from_numpy(val.copy())
    if weight is not None:
        out.edge_weight = weight.float()
    return out


def _steps(module: Any, data: Any, epochs: int) -> None:
    """Full-batch steps of a Lightning-style module: `training_step` gives the loss, its optimizer moves."""
    made = module.configure_optimizers()
    optimizer = made["optimizer"] if isinstance(made, dict) else made
    if isinstance(optimizer, (list, tuple)) or not hasattr(optimizer, "step"):
        raise InputError("a Lightning-style module trains here with one optimizer; give a fit function instead")
    for _ in range(epochs):
        optimizer.zero_grad()
        found = module.training_step(data, 0)
        loss = found["loss"] if isinstance(found, dict) else found
        loss.backward()
        optimizer.step()
