"""PyTorch Geometric both ways: `Data` objects, and a mechanism as a dataset transform. Needs the extra ``pyg``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from edgeveil.errors import GraphError, MissingExtra
from edgeveil.graph.graph import Graph
from edgeveil.graph.validate import Collapsed, collapse_edges

__all__ = ["as_transform", "from_pyg", "to_pyg"]


def _pyg() -> Any:
    try:
        import torch_geometric.data
    except ImportError as error:
        raise MissingExtra("PyTorch Geometric interchange", "pyg") from error
    return torch_geometric.data


def to_pyg(graph: Graph) -> Any:
    """`torch_geometric.data.Data` with both directions of every edge, dense x, y and the active split's masks."""
    data = _pyg().Data(num_nodes=graph.num_nodes)
    import torch

    both = np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1)
    order = np.lexsort((both[1], both[0]))
    data.edge_index = torch.from_numpy(np.ascontiguousarray(both[:, order]))
    if graph.x is not None:
        dense = graph.x.toarray() if sp.issparse(graph.x) else np.array(graph.x)
        data.x = torch.from_numpy(dense)
    if graph.y is not None:
        data.y = torch.from_numpy(np.array(graph.y))
    if graph.masks is not None:
        for part, mask in graph.masks._asdict().items():
            data[f"{part}_mask"] = torch.from_numpy(mask.copy())
    if graph.is_twin:
        data.is_twin = True
    if not graph.public_nodes:
        data.public_nodes = False
    return data


def from_pyg(data: Any, name: str = "graph") -> Graph:
    """A graph from `Data`; direction, repeats and weights are collapsed and counted, 2-D masks become 0, 1 ...

    Nodes are public if the data would know their number without its edges (``x``, ``y``, ``num_nodes`` ...).
    """
    _pyg()
    if data.edge_index is None:
        raise GraphError("the Data object has no edge_index; convert adj_t to edge_index first")
    edges = data.edge_index.detach().cpu().numpy()
    known = _nodes_without_edges(data)
    num_nodes = _nodes_of_edges(data) if known is None else known
    keys, counted = collapse_edges(edges, num_nodes)
    weights = any(_not_one(data.get(key)) for key in ("edge_weight", "edge_attr"))
    one_way = len(keys) - counted.reversed
    lost = Collapsed(weights=weights, one_way=one_way if counted.reversed else 0)
    splits = _splits(data)
    return Graph.from_edges(
        edges,
        _numpy(data.x),
        _labels(data.y),
        num_nodes=num_nodes,
        splits=splits,
        split=next(iter(splits), None),
        name=name,
        is_twin=bool(data.get("is_twin", False)),
        collapsed=lost,
        public_nodes=known is not None and bool(data.get("public_nodes", True)),
    )


def _nodes_without_edges(data: Any) -> int | None:
    """The number of nodes as the data's other parts tell it; PyG falls back on the largest node of an edge."""
    if "num_nodes" in data and data["num_nodes"] is not None:
        return int(data["num_nodes"])
    masks = ("train_mask", "val_mask", "test_mask")
    sizes = (len(data[key]) for key in ("x", "y", "pos", *masks) if data.get(key) is not None)
    return next(sizes, None)


def _nodes_of_edges(data: Any) -> int:
    with warnings.catch_warnings():  # PyG warns that it guesses; `Graph.public_nodes` says it in a way that holds
        warnings.simplefilter("ignore", UserWarning)
        return int(data.num_nodes)


def _numpy(tensor: Any) -> Any:
    if tensor is None:
        return None
    if tensor.is_sparse or tensor.layout.__str__() == "torch.sparse_csr":
        coo = tensor.detach().cpu().to_sparse_coo().coalesce()
        rows, columns = coo.indices().numpy()
        return sp.csr_matrix((coo.values().numpy(), (rows, columns)), shape=tuple(coo.shape))
    return tensor.detach().cpu().numpy()


def _labels(tensor: Any) -> Any:
    y = _numpy(tensor)
    return y[:, 0] if y is not None and y.ndim == 2 and y.shape[1] == 1 else y


def _not_one(tensor: Any) -> bool:
    return tensor is not None and bool((tensor != 1).any())


def _splits(data: Any) -> dict[str, dict[str, Any]]:
    masks = {part: _numpy(data.get(f"{part}_mask")) for part in ("train", "val", "test")}
    known = {part: mask for part, mask in masks.items() if mask is not None}
    if not known:
        return {}
    if all(mask.ndim == 1 for mask in known.values()):
        return {"given": known}
    count = max(mask.shape[1] for mask in known.values() if mask.ndim == 2)
    return {
        str(k): {part: mask if mask.ndim == 1 else mask[:, k] for part, mask in known.items()} for k in range(count)
    }


class Mechanism(Protocol):
    """Anything that returns a perturbed copy of a graph."""

    def perturb(self, graph: Graph, seed: int | None = None) -> Graph:
        """The perturbed graph."""
        ...


@dataclass(frozen=True)
class _Transform:
    mechanism: Mechanism
    seed: int | None = None

    def __call__(self, data: Any) -> Any:
        noisy = to_pyg(self.mechanism.perturb(from_pyg(data), seed=self.seed))
        out = data.clone()
        out.edge_index = noisy.edge_index
        for stale in ("edge_weight", "edge_attr", "adj_t"):
            if stale in out:
                del out[stale]
        if "x" in noisy and data.x is not None:
            out.x = noisy.x.to(data.x.dtype) if not data.x.is_sparse else noisy.x
        return out

    def __repr__(self) -> str:
        return f"as_transform({self.mechanism!r})"


def as_transform(mechanism: Mechanism, seed: int | None = None) -> Callable[[Any], Any]:
    """A PyG transform that replaces the edges by the mechanism's noisy ones; ``seed=None`` draws private noise."""
    _pyg()
    return _Transform(mechanism, seed)
