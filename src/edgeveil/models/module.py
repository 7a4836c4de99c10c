"""A torch module from outside in the frame of our models: trained by our loop or its own, evaluated in float64."""

from __future__ import annotations

import inspect
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from edgeveil.errors import GraphError, InputError
from edgeveil.models.kernels.operand import Deferred
from edgeveil.models.kernels.ops import Features, num_columns, num_rows
from edgeveil.models.module_source import Source, source_of
from edgeveil.models.network import Model, kprop
from edgeveil.models.own_models import WANTED, OwnModel
from edgeveil.models.spec import ModelSpec
from edgeveil.models.structure import Structure

__all__ = ["ModuleModel", "as_edges", "call_module"]

CALLED = "; it is called as module(x, edge_index) or module(x, edge_index, edge_weight)"
_edges: WeakKeyDictionary[Structure, tuple[Tensor, Tensor | None]] = WeakKeyDictionary()


class ModuleModel(Model):
    """`module(x, edge_index)` or, on a weighted graph, `module(x, edge_index, edge_weight)` where it takes weights.

    Its first step only fills in the features (and runs KProp, where a defence puts it in front), so that training and
    validation share that and nothing else: BatchNorm, dropout and the like are the module's own, as in PyG.
    """

    def __init__(self, spec: ModelSpec, num_features: int, num_outputs: int, own: OwnModel) -> None:
        module = _made(own, num_features, num_outputs)
        super().__init__(spec, num_features, num_outputs, [module])  # type: ignore[list-item]
        self.own, self.takes_weights, self.needs_weights = own, *_weights(module)
        self._try()

    @property
    def module(self) -> nn.Module:
        """The factory's module, with the weights of this model."""
        return self.layers[0]

    @property
    def stored(self) -> nn.Module:
        """Weights are kept under the module's own names."""
        return self.module

    @property
    def source(self) -> Source:
        """Which code this is."""
        return source_of(self.own, self.module)

    def first(self, x: Features, structure: Structure) -> Tensor:
        """Dense features, propagated where the spec says so."""
        if num_columns(x) != self.num_features:
            raise GraphError(f"the model was built for {self.num_features} features, these have {num_columns(x)}")
        if num_rows(x) != structure.num_nodes:
            raise GraphError(f"{num_rows(x)} feature rows for a graph of {structure.num_nodes} nodes; they must match")
        assert not isinstance(x, Deferred)
        out = kprop(x if isinstance(x, Tensor) else x.dense(), structure, self.spec.kprop)
        assert isinstance(out, Tensor)
        return out

    def rest(self, out: Tensor, structure: Structure) -> Tensor:
        """The module itself."""
        index, weight = as_edges(structure)
        return call_module(self, out, index, weight)

    def _try(self) -> None:
        """One pass on a path of four nodes fills in lazy weights and shows a module that cannot be used."""
        there = torch.tensor([[0, 1, 2], [1, 2, 3]])
        index = torch.cat([there, there.flip(0)], dim=1)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            x = torch.randn(4, self.num_features)
            self.eval()
            call_module(self, x, index, None)
            self.train()
        if not any(p.requires_grad for p in self.parameters()):
            raise InputError(f"the own model {self.own.name!r} has no weights to train")


def call_module(model: ModuleModel, x: Tensor, index: Tensor, weight: Tensor | None) -> Tensor:
    """Logits of all nodes, checked; a failure inside the module is told as such."""
    if weight is None and model.needs_weights:
        weight = x.new_ones(index.shape[1])
    args = (x, index) if weight is None or not model.takes_weights else (x, index, weight.to(x.dtype))
    try:
        out = model.module(*args)
    except Exception as error:
        wide = (x.dtype == torch.float64 and "dtype" in str(error)) or "Double" in str(error)
        hint = "; answers are computed in float64, so make new tensors like x (x.new_zeros, dtype=x.dtype)"
        raise InputError(
            f"the own model {model.own.name!r} failed when called with x {list(x.shape)} and edge_index "
            f"{list(index.shape)}: {_told(error)}{hint if wide else CALLED if isinstance(error, TypeError) else ''}"
        ) from error
    want = (x.shape[0], model.num_outputs)
    if not isinstance(out, Tensor) or tuple(out.shape) != want:
        got = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise InputError(
            f"the own model {model.own.name!r} must return logits {list(want)}, one row per node and one column per "
            f"class, and nothing else; got {got}"
        )
    return out


def as_edges(structure: Structure) -> tuple[Tensor, Tensor | None]:
    """`edge_index` [2, E] from sender to receiver, and weights where they are not all 1; kept with the structure."""
    if structure not in _edges:
        a = structure.adjacency
        rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
        index = torch.from_numpy(np.stack([a.indices.astype(np.int64), rows]))
        weighted = bool((a.data != 1).any())
        _edges[structure] = index, torch.from_numpy(np.asarray(a.data, np.float64)) if weighted else None
    return _edges[structure]


def _made(own: OwnModel, num_features: int, num_outputs: int) -> nn.Module:
    try:
        module = own.factory(num_features, num_outputs)
    except Exception as error:
        ready = str(getattr(own.factory, "__module__", "")).startswith("torch_geometric")
        hint = f"; PyG's ready models go by name, as 'pyg:{own.factory.__name__}'" if ready else ""
        raise InputError(f"{WANTED}; {own.name}({num_features}, {num_outputs}) failed: {_told(error)}{hint}") from error
    if not isinstance(module, nn.Module):
        raise InputError(f"{WANTED}; {own.name!r} gave {type(module).__name__}")
    stale = next((n or type(m).__name__ for n, m in module.named_modules() if getattr(m, "cached", False)), None)
    if stale is not None:
        raise InputError(
            f"the own model {own.name!r} keeps the first graph it sees ({stale}: cached=True), and it is asked about "
            "several; build it with cached=False"
        )
    return module


def _weights(module: nn.Module) -> tuple[bool, bool]:
    """Whether the third argument of the call is an edge weight that the module uses (PyG says so of its own models),
    and whether it cannot be left out."""
    third = list(inspect.signature(module.forward).parameters.values())[2:3]
    takes = bool(third) and third[0].name == "edge_weight" and bool(getattr(module, "supports_edge_weight", True))
    return takes, takes and third[0].default is inspect.Parameter.empty


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
