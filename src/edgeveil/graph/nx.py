"""NetworkX graphs both ways."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from edgeveil.errors import GraphError, MissingExtra, UnknownNameError
from edgeveil.graph.files.ids import canonical_order
from edgeveil.graph.graph import Graph
from edgeveil.graph.validate import Collapsed, collapse_edges

__all__ = ["from_networkx", "to_networkx"]


def to_networkx(graph: Graph) -> Any:
    """`networkx.Graph` named by node id, with node attributes ``x``, ``y`` and ``split`` where the graph has them."""
    try:
        import networkx
    except ImportError as error:
        raise MissingExtra("NetworkX interchange", "dev") from error
    ids = list(range(graph.num_nodes)) if graph.node_ids is None else graph.node_ids.tolist()
    out = networkx.Graph(name=graph.name, is_twin=graph.is_twin)
    if graph.public_nodes:
        out.graph["public_nodes"] = _list_of(ids)
    if graph.class_names is not None:
        out.graph["class_names"] = list(graph.class_names)
    x = graph.x.toarray() if sp.issparse(graph.x) else graph.x
    for i, node in enumerate(ids):
        out.add_node(node)
        if x is not None:
            out.nodes[node]["x"] = x[i].tolist()
        if graph.y is not None:
            out.nodes[node]["y"] = graph.y[i].tolist()
        if graph.masks is not None:
            part = next((p for p in ("train", "val", "test") if getattr(graph.masks, p)[i]), None)
            if part:
                out.nodes[node]["split"] = part
    out.add_edges_from((ids[u], ids[v]) for u, v in graph.edge_index.T.tolist())
    return out


def from_networkx(
    source: Any,
    name: str | None = None,
    nodes: Iterable[Any] | None = None,
    *,
    features: Sequence[str] = (),
    label: str = "y",
) -> Graph:
    """A graph from any NetworkX graph; direction, multiplicity and weights are collapsed and counted.

    `features` names node attributes that are numbers (default: the vector ``x``), `label` the attribute that holds the
    class: a number, or a name, and then the classes are numbered in the order of their names.

    NetworkX lists nodes as edges brought them in, so they are put in canonical order (whole numbers by value, else by
    text), and they count as public only if `nodes` lists them all, every node has ``x`` or ``y``, or they are the very
    ones that `to_networkx` wrote as public: edges added or cut since may have changed who is there.
    """
    ordered = _ordered(source, nodes)
    place = {node: i for i, node in enumerate(ordered)}
    ends = [(place[u], place[v]) for u, v, *_ in source.edges]
    edges = np.array(ends, np.int64).reshape(-1, 2).T
    data = [source.nodes.get(node, {}) for node in ordered]
    keys, counted = collapse_edges(edges, len(ordered)) if ordered else (np.empty(0), Collapsed())
    weights = any(attributes.get("weight", 1) != 1 for *_, attributes in source.edges(data=True))
    lost = Collapsed(weights=weights, one_way=len(keys) - counted.reversed if source.is_directed() else 0)
    masks = None
    if any("split" in d for d in data):
        masks = {p: np.array([d.get("split") == p for d in data]) for p in ("train", "val", "test")}
    y, names = _numbered(_attribute(data, label, ordered, -1))
    said = nodes is not None or source.graph.get("public_nodes") == _list_of(ordered)
    return Graph.from_edges(
        edges,
        _columns(data, features, ordered) if features else _attribute(data, "x", ordered, None),
        y,
        num_nodes=len(ordered),
        splits={"given": masks} if masks else None,
        split="given" if masks else None,
        name=name or getattr(source, "name", "") or "graph",
        node_ids=None if ordered == list(range(len(ordered))) else _ids(ordered),
        is_twin=bool(source.graph.get("is_twin", False)),
        collapsed=lost,
        class_names=names or source.graph.get("class_names"),
        public_nodes=said or any(all(key in d for d in data) for key in (*features, "x", label)),
    )


def _list_of(nodes: list[Any]) -> str:
    """A digest of a list of nodes, which knows it again."""
    return hashlib.sha256("\n".join(canonical_order(map(str, nodes))).encode()).hexdigest()


def _ordered(source: Any, nodes: Iterable[Any] | None) -> list[Any]:
    listed = list(source.nodes) if nodes is None else list(nodes)
    place = {str(node): node for node in listed}
    if len(place) != len(listed):
        twice = next(node for node in listed if place[str(node)] is not node)
        raise GraphError(f"two nodes are written {str(twice)!r}; give every node an id of its own")
    stray = next((node for node in source.nodes if str(node) not in place or place[str(node)] != node), None)
    if stray is not None:
        raise GraphError(f"nodes does not list {stray!r}, which the NetworkX graph has; list all nodes")
    return [place[node] for node in canonical_order(place)]


def _attribute(data: list[dict[str, Any]], key: str, nodes: list[Any], missing: Any) -> Any:
    if not any(key in d for d in data):
        return None
    bare = next((node for node, d in zip(nodes, data, strict=True) if key not in d), None)
    if bare is not None and missing is None:
        raise GraphError(f"node {bare!r} has no attribute {key!r}, but others have; give it to all nodes or to none")
    return np.array([d.get(key, missing) for d in data])


def _columns(data: list[dict[str, Any]], names: Sequence[str], nodes: list[Any]) -> Any:
    out = np.zeros((len(data), len(names)))
    for at, name in enumerate(names):
        column = _attribute(data, name, nodes, None)
        if column is None:
            known = sorted({key for d in data for key in d})
            raise UnknownNameError("node attribute", name, known)
        if column.dtype.kind not in "fiub" or not np.isfinite(column).all():
            raise GraphError(f"node attribute {name!r} must hold finite numbers to be a feature, got {column.dtype}")
        out[:, at] = column
    return out


def _numbered(labels: Any) -> tuple[Any, list[str] | None]:
    """Class numbers, and the names of named classes; NaN and the missing mark -1 mean no label."""
    if labels is None or labels.dtype.kind in "iub":
        return labels, None
    if labels.dtype.kind == "f":
        return np.where(np.isnan(labels), -1, labels), None
    names = sorted({str(v) for v in labels} - {"-1", "nan"})
    place = {name: i for i, name in enumerate(names)}
    return np.array([place.get(str(v), -1) for v in labels]), names


def _ids(nodes: list[Any]) -> Any:
    whole = all(isinstance(node, (int, np.integer)) for node in nodes)
    return np.array(nodes, np.int64) if whole else np.array([str(node) for node in nodes])
