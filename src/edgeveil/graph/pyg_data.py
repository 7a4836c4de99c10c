"""PyTorch Geometric's `Data` both ways. Needs the extra ``pyg``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from edgeveil.errors import GraphError, MissingExtra
from edgeveil.graph.graph import Graph
from edgeveil.graph.validate import Collapsed, collapse_edges

__all__ = ["from_pyg", "to_pyg"]

PARTS = ("train", "val", "test")


def _pyg() -> Any:
    try:
        import torch_geometric.data
    except ImportError as error:
        raise MissingExtra("PyTorch Geometric interchange", "pyg") from error
    return torch_geometric.data


def to_pyg(graph: Graph, dtype: str = "float32") -> Any:
    """`torch_geometric.data.Data` with both directions of every edge, dense x of `dtype`, y, the active split's masks
    and, where the graph has them, `node_ids` and `class_names`."""
    data = _pyg().Data(num_nodes=graph.num_nodes)
    import torch

    both = np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1)
    order = np.lexsort((both[1], both[0]))
    data.edge_index = torch.from_numpy(np.ascontiguousarray(both[:, order]))
    if graph.x is not None:
        dense = graph.x.toarray() if sp.issparse(graph.x) else np.array(graph.x)
        data.x = torch.from_numpy(dense.astype(dtype))
    if graph.y is not None:
        data.y = torch.from_numpy(np.array(graph.y))
    if graph.masks is not None:
        for part, mask in graph.masks._asdict().items():
            data[f"{part}_mask"] = torch.from_numpy(mask.copy())
    if graph.node_ids is not None:
        data.node_ids = graph.node_ids.tolist()
    if graph.class_names is not None:
        data.class_names = list(graph.class_names)
    if graph.is_twin:
        data.is_twin = True
    if not graph.public_nodes:
        data.public_nodes = False
    return data


def from_pyg(data: Any, name: str = "graph", dtype: str = "float32") -> Graph:
    """A graph from `Data` with features of `dtype`. Direction and repeats are collapsed and counted, labels that are
    NaN count as no label (their nodes are in no mask).

    Masks may be boolean or lists of nodes (also ``train_idx`` ...); 2-D ones become the splits 0, 1 ... Nodes are
    public if the data would know their number without its edges (``x``, ``y``, ``num_nodes`` ...).
    """
    _pyg()
    _check_kind(data)
    edges = data.edge_index.detach().cpu().numpy()
    known = _nodes_without_edges(data)
    num_nodes = _nodes_of_edges(data) if known is None else known
    keys, counted = collapse_edges(edges, num_nodes)
    lost = Collapsed(one_way=len(keys) - counted.reversed)
    x, y = _numpy(data.x), _labels(data.y)
    splits = _splits(data, num_nodes, None if y is None or y.ndim == 2 else y >= 0)
    return Graph.from_edges(
        edges,
        None if x is None else x.astype(dtype),
        y,
        num_nodes=num_nodes,
        splits=splits,
        split=next(iter(splits), None),
        name=name,
        is_twin=bool(data.get("is_twin", False)),
        node_ids=data.get("node_ids"),
        collapsed=lost,
        public_nodes=known is not None and bool(data.get("public_nodes", True)),
        class_names=data.get("class_names"),
    )


def _check_kind(data: Any) -> None:
    """Refuse what a simple undirected graph of one kind of node cannot hold, rather than drop it in silence."""
    if hasattr(data, "node_types"):
        raise GraphError(
            f"HeteroData has several kinds of node or edge ({', '.join(map(str, data.node_types))}); an edge of a "
            "graph here joins two nodes of one kind, so pass one kind, or data.to_homogeneous() if kinds do not matter"
        )
    if not hasattr(data, "edge_index"):
        one = ", of which one is graph = from_pyg(dataset[0])" if hasattr(data, "__getitem__") else ""
        raise GraphError(f"from_pyg takes one torch_geometric.data.Data, got {type(data).__name__}{one}")
    if data.edge_index is None:
        raise GraphError("the Data object has no edge_index; convert adj_t to edge_index first")
    weighted = next((key for key in ("edge_weight", "edge_attr") if _not_one(data.get(key))), None)
    if weighted is not None:
        raise GraphError(
            f"the Data object has {weighted} other than 1, and what is protected here is whether an edge is there, not "
            f"its weight; drop it (data.{weighted} = None), or keep the edges above a threshold"
        )


def _nodes_without_edges(data: Any) -> int | None:
    """The number of nodes as the data's other parts tell it; PyG falls back on the largest node of an edge."""
    import torch

    if "num_nodes" in data and data["num_nodes"] is not None:
        return int(data["num_nodes"])
    masks = [f"{part}_mask" for part in PARTS if getattr(data.get(f"{part}_mask"), "dtype", None) == torch.bool]
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
    if y is None:
        return None
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.dtype.kind != "f" or not np.isnan(y).any():
        return y
    if y.ndim == 2:
        raise GraphError("some labels of a multi-label y are NaN; a node has all its labels here or counts as 0 there")
    return np.where(np.isnan(y), -1, y)


def _not_one(tensor: Any) -> bool:
    return tensor is not None and bool((tensor != 1).any())


def _splits(data: Any, num_nodes: int, labelled: Any) -> dict[str, dict[str, Any]]:
    """Masks by split and part; nodes without label are in none."""
    masks = {part: _mask(data, part, num_nodes) for part in PARTS}
    if labelled is not None:
        masks = {p: None if m is None else (m.T.astype(bool) & labelled).T for p, m in masks.items()}
    known = {part: mask for part, mask in masks.items() if mask is not None}
    if not known:
        return {}
    if all(mask.ndim == 1 for mask in known.values()):
        return {"given": known}
    count = max(mask.shape[1] for mask in known.values() if mask.ndim == 2)
    return {
        str(k): {part: mask if mask.ndim == 1 else mask[:, k] for part, mask in known.items()} for k in range(count)
    }


def _mask(data: Any, part: str, num_nodes: int) -> Any:
    """A boolean mask, [n] or [n, splits]; a list of nodes becomes one."""
    found = next((data.get(key) for key in (f"{part}_mask", f"{part}_idx") if data.get(key) is not None), None)
    mask = None if found is None else _numpy(found)
    if mask is None or mask.dtype.kind == "b" or mask.ndim != 1:
        return mask
    if len(mask) == num_nodes and np.isin(mask, (0, 1)).all() and f"{part}_mask" in data:
        return mask.astype(bool)
    if mask.size and (mask.dtype.kind not in "iu" or mask.min() < 0 or mask.max() >= num_nodes):
        raise GraphError(f"{part} nodes must be a boolean mask or node numbers 0..{num_nodes - 1}")
    out = np.zeros(num_nodes, bool)
    out[mask] = True
    return out
