"""The secret itself: an immutable, validated, undirected graph with features, labels and named splits."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import GraphError, UnknownNameError
from edgeveil.graph import pairs
from edgeveil.graph.files.ids import DOUBT, check_public_nodes
from edgeveil.graph.validate import (
    Collapsed,
    Split,
    check_features,
    check_labels,
    check_split,
    collapse_edges,
    freeze,
)
from edgeveil.notebook import html_table

if TYPE_CHECKING:
    from edgeveil.graph.files.table_transform import TableTransform

__all__ = ["Graph"]

log = logging.getLogger("edgeveil")
Int = NDArray[np.int64]
NOTHING_LOST = Collapsed()


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Nodes 0..n-1, simple undirected edges, optional features and labels, any number of named splits.

    Build one with `Graph.from_edges`; the constructor trusts its arguments. Edges are kept once, as the upper
    triangle in CSR form with 32-bit columns, so 10^8 edges take 0.4 GB; `edge_index` and `adjacency` are views
    made on demand. Arrays are read-only: derive a changed graph with the ``with_*`` methods. `public_nodes` tells
    whether the nodes come from a source other than the edges; only such a graph may be published under a promise about
    edges (`check_public_nodes`).
    """

    indptr: Int  # row starts of the upper triangle
    indices: NDArray[Any]  # columns v > u of row u, sorted
    x: Any = None
    y: NDArray[Any] | None = None
    num_classes: int = 0
    splits: Mapping[str, Split] = field(default_factory=dict)
    split: str | None = None
    name: str = "graph"
    is_twin: bool = False
    node_ids: NDArray[Any] | None = None
    collapsed: Collapsed = NOTHING_LOST
    public_nodes: bool = False
    origin: str = ""  # the catalogue's name of the dataset whose edges these are; other edges have none
    class_names: tuple[str, ...] | None = None
    table: TableTransform | None = None  # how an own table became `x`
    reading: Mapping[str, str] = field(default_factory=dict)  # how own files were read, for their owner's eyes
    dataset: str = ""  # the same for features and labels: whose presets apply. A file's name never sets it

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        x: Any = None,
        y: Any = None,
        *,
        num_nodes: int | None = None,
        num_classes: int | None = None,
        train_mask: Any = None,
        val_mask: Any = None,
        test_mask: Any = None,
        splits: Mapping[str, Any] | None = None,
        split: str | None = None,
        name: str = "graph",
        is_twin: bool = False,
        node_ids: Any = None,
        collapsed: Collapsed | None = None,
        public_nodes: bool | None = None,
        class_names: Sequence[str] | None = None,
    ) -> Graph:
        """Validate and collapse an edge list [2, E] to a simple undirected graph.

        Duplicates, opposite directions and self-loops are merged or dropped; `graph.collapsed` counts them and a
        real loss is logged. `collapsed` carries what a reader already lost (weights, direction). Nodes are public if
        `x`, `y` or `num_nodes` name them; a reader that took `num_nodes` from the edges says ``public_nodes=False``.
        """
        if public_nodes is None:
            public_nodes = x is not None or y is not None or num_nodes is not None
        n = _count_nodes(edges, x, y, num_nodes)
        keys, counted = collapse_edges(edges, n)
        if collapsed is not None:
            counted = counted._replace(weights=collapsed.weights, one_way=collapsed.one_way)
        level = logging.WARNING if counted._replace(reversed=0) != Collapsed() else logging.INFO
        if counted != Collapsed():
            log.log(level, "%s: %s", name, counted)
        x = None if x is None else freeze(check_features(x, n))
        classes = num_classes or 0
        if y is not None:
            y, classes = check_labels(y, n, num_classes)
            freeze(y)
        named: dict[str, Any] = dict(splits or {})
        if train_mask is not None or val_mask is not None or test_mask is not None:
            named["given"] = {"train": train_mask, "val": val_mask, "test": test_mask}
            split = split or "given"
        checked = {k: check_split(s, n, y, k) for k, s in named.items()}
        if split is not None and split not in checked:
            raise UnknownNameError("split", split, checked)
        if node_ids is not None and len(node_ids) != n:
            raise GraphError(f"node_ids must name all {n} nodes, got {len(node_ids)}")
        indptr, indices = _upper_csr(keys // n if n else keys, keys % n if n else keys, n)
        return cls(
            indptr, indices, x, y, classes, MappingProxyType(checked), split, name, is_twin,
            None if node_ids is None else freeze(np.array(node_ids)), counted,
            public_nodes, class_names=_class_names(class_names, classes),
        )  # fmt: skip

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        return len(self.indices)

    @property
    def num_features(self) -> int:
        return 0 if self.x is None else int(self.x.shape[1])

    @property
    def multilabel(self) -> bool:
        return self.y is not None and self.y.ndim == 2

    @property
    def density(self) -> float:
        """Edges as a share of all unordered pairs."""
        return self.num_edges / max(pairs.num_pairs(self.num_nodes), 1)

    @cached_property
    def edge_index(self) -> Int:
        """int64 [2, E], u < v, sorted."""
        rows = np.repeat(np.arange(self.num_nodes, dtype=np.int64), np.diff(self.indptr))
        out: Int = freeze(np.stack([rows, self.indices.astype(np.int64)]))
        return out

    @cached_property
    def edge_ranks(self) -> Int:
        """Sorted lexicographic pair ranks of the edges (see `edgeveil.graph.pairs`)."""
        out: Int = freeze(pairs.rank(self.edge_index[0], self.edge_index[1], self.num_nodes))
        return out

    @cached_property
    def adjacency(self) -> sp.csr_matrix:
        """Symmetric scipy CSR with float32 ones."""
        n = self.num_nodes
        upper = sp.csr_matrix((np.ones(self.num_edges, np.float32), self.indices, self.indptr), shape=(n, n))
        return freeze((upper + upper.T).tocsr())

    @cached_property
    def degrees(self) -> Int:
        """Number of neighbours of every node."""
        out: Int = freeze(np.diff(self.indptr) + np.bincount(self.indices, minlength=self.num_nodes))
        return out

    def neighbours(self, node: int) -> Int:
        """Sorted neighbours of one node."""
        if not 0 <= node < self.num_nodes:
            raise GraphError(f"node {node} is outside 0..{self.num_nodes - 1}")
        a = self.adjacency
        out: Int = np.sort(a.indices[a.indptr[node] : a.indptr[node + 1]]).astype(np.int64)
        return out

    def has_edges(self, u: Any, v: Any) -> NDArray[np.bool_]:
        """Which of the pairs (u[i], v[i]) are edges, in either order; a self-pair never is."""
        u, v = np.broadcast_arrays(np.atleast_1d(np.asarray(u, np.int64)), np.asarray(v, np.int64))
        bad = (np.minimum(u, v) < 0) | (np.maximum(u, v) >= self.num_nodes)
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            raise GraphError(f"pair ({u[first]}, {v[first]}) names a node outside 0..{self.num_nodes - 1}")
        lo, hi = np.minimum(u, v), np.maximum(u, v)
        ok = lo < hi
        found = np.zeros(len(lo), dtype=bool)
        wanted = pairs.rank(lo[ok], hi[ok], self.num_nodes)
        at = np.minimum(np.searchsorted(self.edge_ranks, wanted), max(self.num_edges - 1, 0))
        found[ok] = self.edge_ranks[at] == wanted if self.num_edges else False
        return found

    # -- splits ---------------------------------------------------------------------------------------------------

    @property
    def masks(self) -> Split | None:
        """The active split, or None."""
        return None if self.split is None else self.splits[self.split]

    @property
    def train_mask(self) -> NDArray[np.bool_] | None:
        return None if self.masks is None else self.masks.train

    @property
    def val_mask(self) -> NDArray[np.bool_] | None:
        return None if self.masks is None else self.masks.val

    @property
    def test_mask(self) -> NDArray[np.bool_] | None:
        return None if self.masks is None else self.masks.test

    def with_split(self, name: str | None, split: Split | Mapping[str, Any] | None = None) -> Graph:
        """The same graph with the named split active; pass `split` to add a new one under that name."""
        splits = dict(self.splits)
        if split is not None and name is not None:
            splits[name] = check_split(split, self.num_nodes, self.y, name)
        if name is not None and name not in splits:
            raise UnknownNameError("split", name, splits)
        return self._replace(splits=MappingProxyType(splits), split=name)

    # -- derived graphs -------------------------------------------------------------------------------------------

    def _replace(self, **changes: Any) -> Graph:
        """Other edges are no longer those of a dataset."""
        return replace(self, **({"origin": ""} | changes if "indices" in changes else changes))

    def with_edge_ranks(self, ranks: Int, name: str | None = None) -> Graph:
        """Same nodes, other edges, given as sorted distinct pair ranks."""
        u, v = pairs.unrank(ranks, self.num_nodes)
        indptr, indices = _upper_csr(u, v, self.num_nodes)
        return self._replace(indptr=indptr, indices=indices, name=name or self.name, collapsed=Collapsed())

    def with_upper(self, indptr: Int, indices: NDArray[Any]) -> Graph:
        """Same nodes, other edges, given as a trusted upper triangle in CSR form."""
        return self._replace(indptr=freeze(indptr), indices=freeze(indices), collapsed=Collapsed())

    def with_edges(self, edges: Any) -> Graph:
        """Same nodes, other edges, given as any [2, E] array."""
        keys, counted = collapse_edges(edges, self.num_nodes)
        n = max(self.num_nodes, 1)
        indptr, indices = _upper_csr(keys // n, keys % n, self.num_nodes)
        return self._replace(indptr=indptr, indices=indices, collapsed=counted)

    def with_features(self, x: Any) -> Graph:
        """Same graph, other features, which no paper's preset was made for."""
        return self._replace(x=None if x is None else freeze(check_features(x, self.num_nodes)), dataset="", table=None)

    def with_labels(self, y: Any, num_classes: int | None = None) -> Graph:
        """Same graph, other labels."""
        y, classes = check_labels(y, self.num_nodes, num_classes)
        names = self.class_names if classes == self.num_classes else None
        return self._replace(y=freeze(y), num_classes=classes, class_names=names)

    def with_table(self, table: TableTransform | None, reading: Mapping[str, str] | None = None) -> Graph:
        """Same graph, with the word of its reader how files became numbers."""
        return self._replace(table=table, reading=dict(reading or {}))

    def with_public_nodes(self) -> Graph:
        """Same graph, with the caller's word that its node list (number, ids, order) is public and not from edges."""
        return self._replace(public_nodes=True)

    def check_public_nodes(self) -> None:
        """Raise unless the nodes are public; everything that states an epsilon for edges asks this first."""
        check_public_nodes(self.public_nodes, self.name, self.reading.get(DOUBT, ""))

    def named(self, name: str) -> Graph:
        """Same graph, other name."""
        return self._replace(name=name)

    def subgraph(self, nodes: Any) -> Graph:
        """The graph induced by `nodes` (ids or a boolean mask), renumbered in the given order.

        The choice is published with the graph: one that depends on edges (a largest component, a degree) is not
        covered by any epsilon.
        """
        nodes = np.asarray(nodes)
        nodes = np.flatnonzero(nodes) if nodes.dtype == np.bool_ else nodes.astype(np.int64)
        if len(np.unique(nodes)) != len(nodes):
            raise GraphError("a subgraph needs distinct nodes; some are repeated")
        if len(nodes) and (nodes.min() < 0 or nodes.max() >= self.num_nodes):
            raise GraphError(f"subgraph nodes must lie in 0..{self.num_nodes - 1}")
        place = np.full(self.num_nodes, -1, np.int64)
        place[nodes] = np.arange(len(nodes))
        u, v = place[self.edge_index]
        inside = (u >= 0) & (v >= 0)
        lo, hi = np.minimum(u, v)[inside], np.maximum(u, v)[inside]
        order = np.lexsort((hi, lo))
        indptr, indices = _upper_csr(lo[order], hi[order], len(nodes))
        cut = {k: Split(*(freeze(m[nodes]) for m in s)) for k, s in self.splits.items()}
        return self._replace(
            indptr=indptr,
            indices=indices,
            x=None if self.x is None else freeze(self.x[nodes]),
            y=None if self.y is None else freeze(self.y[nodes]),
            splits=MappingProxyType(cut),
            node_ids=None if self.node_ids is None else freeze(self.node_ids[nodes]),
            collapsed=Collapsed(),
        )

    # -- identity -------------------------------------------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of edges, features, labels and splits: equal on every platform, and for dense or sparse x."""
        digest = hashlib.sha256(f"edgeveil-graph-1 {self.num_nodes} {self.num_classes}".encode())

        def feed(tag: str, array: Any, dtype: str) -> None:
            digest.update(f"|{tag}".encode())
            digest.update(np.ascontiguousarray(array, dtype=dtype).tobytes())

        feed("indptr", self.indptr, "<i8")
        feed("indices", self.indices, "<i8")
        if self.x is not None:
            x = sp.csr_matrix(self.x)
            feed("x", np.asarray(x.shape), "<i8")
            feed("x.indptr", x.indptr, "<i8")
            feed("x.indices", x.indices, "<i8")
            feed("x.data", x.data, "<f8")
        if self.y is not None:
            feed("y", self.y, "<i8")
        for key in sorted(self.splits):
            for part, mask in self.splits[key]._asdict().items():
                feed(f"split {key} {part}", mask, "|b1")
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def _repr_html_(self) -> str:
        facts = {
            "nodes": f"{self.num_nodes:,} ({'public' if self.public_nodes else 'read off the edges'})",
            "edges": f"{self.num_edges:,} (density {self.density:.2g}); {self.collapsed}",
            "features": f"{self.num_features:,}",
            "labels": "none"
            if self.y is None
            else f"{self.num_classes:,} {'labels' if self.multilabel else 'classes'}",
            "split": self.split or "none",
        }
        return html_table(f"{self.name}{' (synthetic twin)' if self.is_twin else ''}", ("", ""), facts.items())

    def __repr__(self) -> str:
        twin = " (synthetic twin)" if self.is_twin else ""
        labels = (
            f"{self.num_classes} {'labels' if self.multilabel else 'classes'}" if self.y is not None else "no labels"
        )
        split = f", split {self.split!r}" if self.split else ""
        return (
            f"Graph({self.name!r}{twin}: {self.num_nodes:,} nodes, {self.num_edges:,} edges, "
            f"{self.num_features:,} features, {labels}{split})"
        )


def _count_nodes(edges: Any, x: Any, y: Any, num_nodes: int | None) -> int:
    sizes = {"x": None if x is None else x.shape[0] if hasattr(x, "shape") else len(x)}
    sizes["y"] = None if y is None else len(y)
    sizes["num_nodes"] = num_nodes
    known = {k: int(s) for k, s in sizes.items() if s is not None}
    if len(set(known.values())) > 1:
        raise GraphError(f"the number of nodes is contradictory: {known}; every part must cover the same nodes")
    n = next(iter(known.values())) if known else _largest(np.asarray(edges)) + 1
    if n <= 0:
        raise GraphError("the graph is empty: it needs at least one node (pass x, y or num_nodes if it has no edges)")
    pairs.num_pairs(n)
    return n


def _class_names(names: Sequence[str] | None, classes: int) -> tuple[str, ...] | None:
    if names is not None and (len(names) != classes or len(set(names)) != classes):
        raise GraphError(f"class_names must name each of the {classes} classes once, got {', '.join(map(str, names))}")
    return None if names is None else tuple(map(str, names))


def _largest(edges: NDArray[Any]) -> int:
    if not edges.size:
        return -1
    if edges.dtype.kind not in "iuf":
        raise GraphError(f"edges must hold whole node numbers, got dtype {edges.dtype}; map node ids to 0..n-1 first")
    if edges.min() < 0:
        raise GraphError(f"edges name node {edges.min()}; nodes are numbered from 0")
    return int(edges.max())


def _upper_csr(u: Int, v: Int, n: int) -> tuple[Int, NDArray[Any]]:
    """Upper-triangle CSR of pairs that are already sorted and distinct."""
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(u, minlength=n), out=indptr[1:])
    dtype = np.int32 if n <= np.iinfo(np.int32).max else np.int64
    return freeze(indptr), freeze(v.astype(dtype))
