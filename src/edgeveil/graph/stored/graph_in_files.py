"""A private graph whose edges stay in parquet files: the owner's questions to it, answered by a data engine.

Only nodes (public) are in memory. Answers are exact and private: whoever publishes one adds noise first.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from edgeveil.errors import GraphError, StorageError
from edgeveil.graph.cluster_degrees import check_clusters, count_neighbours
from edgeveil.graph.graph import Graph
from edgeveil.graph.npz import atomic_write
from edgeveil.graph.pairs import UniformIntegers, num_pairs, rank, sample_distinct, unrank
from edgeveil.graph.stored import queries
from edgeveil.graph.stored.addresses import Place, find_tables, open_parquet, state_of
from edgeveil.graph.stored.edge_columns import find_ends
from edgeveil.graph.stored.node_files import open_nodes
from edgeveil.graph.stored.node_table import NodeTable
from edgeveil.graph.stored.sql_engine import Engine, open_engine

__all__ = ["Neighbourhood", "StoredGraph", "number_of_rows", "open_graph"]

Int = NDArray[np.int64]
_BLOCK = 1 << 18


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """All nodes within some hops of a few, the edges among them, and every node's degree in the whole graph."""

    nodes: Int  # sorted numbers in the whole graph
    graph: Graph  # node i is nodes[i]
    degrees: Int
    hops: int


@dataclass(frozen=True, eq=False)
class StoredGraph:
    """`nodes` is the public part (a graph without edges); `work` holds private tables and is the owner's alone."""

    nodes: Graph
    table: NodeTable | None
    engine: Engine
    work: Path
    given: Place
    columns: Mapping[str, str]
    numbered: bool
    features: Mapping[str, Any]  # state of the feature files
    _known: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return self.nodes.name

    @property
    def num_nodes(self) -> int:
        return self.nodes.num_nodes

    @property
    def node_ids(self) -> NDArray[Any] | None:
        return self.nodes.node_ids

    def with_nodes(self, nodes: Graph) -> StoredGraph:
        """The same edges, another split or other labels."""
        if nodes.num_nodes != self.num_nodes:
            raise GraphError(f"these are {nodes.num_nodes} nodes, the edges have {self.num_nodes}")
        return replace(self, nodes=nodes)

    # -- the edges, once each -------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Map ids, drop loops, merge directions and repeats, once; a work folder that did it already is used."""
        if "edges" in self._known:
            return
        folder, mark = self.work / "edges", self.work / "edges.json"
        facts = self.source_facts()
        if not (folder.is_dir() and mark.is_file() and json.loads(mark.read_text()) == facts):
            mark.unlink(missing_ok=True)
            self.engine.view("given", self.given, self.columns)
            if not self.numbered:
                self._write_names()
            self._check_strays()
            self.engine.save(queries.simple_edges(self.num_nodes, numbered=self.numbered), folder)
            atomic_write(mark, json.dumps(facts).encode(), 0o600)
        self._known["edges"] = find_tables(folder)
        self.engine.view("edges", self._known["edges"])

    def source_facts(self) -> dict[str, Any]:
        """What the prepared edges are made from: the files, and which id is which node; for the owner's eyes."""
        if "ids" not in self._known:
            ids = self.node_ids
            self._known["ids"] = (
                None if ids is None else hashlib.sha256(np.ascontiguousarray(ids).tobytes()).hexdigest()
            )
        return {
            "files": state_of(self.given), "nodes": self.num_nodes, "ids": self._known["ids"],
            "columns": dict(self.columns),
        }  # fmt: skip

    def _write_names(self) -> None:
        ids = np.arange(self.num_nodes).astype(str) if self.node_ids is None else self.node_ids
        self._view("nodes", {"node": np.arange(self.num_nodes), "id": np.asarray(ids)})

    def _check_strays(self) -> None:
        for batch in self.engine.batches(queries.stray_ids(self.num_nodes, numbered=self.numbered)):
            for row in batch.to_pylist():
                stray, other = (row["b"], row["a"]) if row["wrong"] else (row["a"], row["b"])
                if stray is None:
                    raise GraphError(
                        f"{self.given.name}: an edge lacks a node id (its other end is {other!r}); fill it in or drop "
                        "the row"
                    )
                raise GraphError(
                    f"{self.given.name} names node {stray!r} (in an edge with {other!r}), which the public list of "
                    f"{self.num_nodes:,} nodes lacks; add it to the list, or drop its edges"
                )

    def _view(self, name: str, columns: Mapping[str, Any]) -> None:
        """Hand a table of ours to the engine, as a file that its workers can read."""
        folder = self.work / f"table-{name}"
        folder.mkdir(exist_ok=True)
        file = folder / "part-0.parquet"
        size = len(next(iter(columns.values())))
        schema = pa.schema([(key, pa.array(value[:1]).type) for key, value in columns.items()])
        with pyarrow.parquet.ParquetWriter(file, schema) as writer:
            for at in range(0, max(size, 1), _BLOCK):
                arrays = [pa.array(value[at : at + _BLOCK], schema.field(key).type) for key, value in columns.items()]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        self.engine.view(name, find_tables(folder))

    # -- questions ------------------------------------------------------------------------------------------------

    @property
    def num_edges(self) -> int:
        """The exact number of undirected edges: private."""
        if "num_edges" not in self._known:
            self.prepare()
            self._known["num_edges"] = self._number(queries.NUMBER_OF_EDGES)
        return int(self._known["num_edges"])

    def degrees(self) -> Int:
        """The number of neighbours of every node."""
        self.prepare()
        if self.engine.local:
            one = np.zeros(self.num_nodes, np.int64)
            return count_neighbours(self._batches(), one, 1, np.int32)[:, 0].astype(np.int64)
        return self._scatter(queries.degrees(), np.zeros(self.num_nodes, np.int64))

    def cluster_degrees(self, clusters: Any, num_clusters: int) -> NDArray[np.int32]:
        """Exact counts [n, C]: how many neighbours every node has in every cluster, each edge once (LPGNet Alg. 4)."""
        self.prepare()
        given = check_clusters(clusters, self.num_nodes, num_clusters)
        if self.engine.local:
            return count_neighbours(self._batches(), given, num_clusters, np.int32)
        self._view_clusters(given)
        cells = self._scatter(queries.cluster_counts(num_clusters), np.zeros(self.num_nodes * num_clusters, np.int32))
        return cells.reshape(self.num_nodes, num_clusters)

    def homophily(self) -> float | None:
        """The share of edges between labelled nodes that stay inside a class; None without labels or such edges."""
        if self.nodes.y is None or self.nodes.multilabel:
            return None
        self.prepare()
        if self.engine.local:
            labelled, same = self._same_class(self.nodes.y)
        else:
            self._view_clusters(self.nodes.y)
            row = next(iter(self.engine.batches(queries.SAME_CLUSTER))).to_pylist()[0]
            labelled, same = row["n"], row["same"]
        return float(same) / float(labelled) if labelled else None

    def _same_class(self, classes: NDArray[Any]) -> tuple[int, int]:
        """`queries.SAME_CLUSTER`, counted here."""
        labelled = same = 0
        for u, v in self._batches():
            a, b = classes[u], classes[v]
            known = (a >= 0) & (b >= 0)
            labelled, same = labelled + int(known.sum()), same + int((known & (a == b)).sum())
        return labelled, same

    def neighbourhood(self, nodes: Any, hops: int) -> Neighbourhood:
        """Everything within so many hops of `nodes`, and the true degrees there; the rest is not read into memory."""
        self.prepare()
        found = np.unique(np.asarray(nodes, np.int64))
        frontier = found
        for _ in range(hops):
            near = self.neighbours(frontier)
            frontier = np.setdiff1d(near, found)
            found = np.union1d(found, near)
        edges, degrees = self.edges_within(found), self.degrees_of(found)
        graph = Graph.from_edges(np.searchsorted(found, edges), num_nodes=len(found), name=self.name)
        return Neighbourhood(found, graph, degrees, hops)

    def neighbours(self, nodes: Any) -> Int:
        """Every node next to one of `nodes`, sorted."""
        self.prepare()
        self._view("chosen", {"node": np.unique(np.asarray(nodes, np.int64))})
        return self._column(queries.NEIGHBOURS)

    def degrees_of(self, nodes: Any) -> Int:
        """The degrees of some sorted nodes in the whole graph."""
        self.prepare()
        self._view("chosen", {"node": np.asarray(nodes, np.int64)})
        out = np.zeros(len(nodes), np.int64)
        for batch in self.engine.batches(queries.INCIDENT):
            out[np.searchsorted(nodes, batch.column(0).to_numpy())] = batch.column(1).to_numpy()
        return out

    def edges_within(self, nodes: Any) -> Int:
        """[2, m]: the edges with both ends among `nodes`, u < v, sorted."""
        self.prepare()
        self._view("chosen", {"node": np.unique(np.asarray(nodes, np.int64))})
        return _ordered(self._pairs(queries.WITHIN))

    def non_edges(self, count: int, rng: UniformIntegers) -> Int:
        """[2, count] distinct pairs that are no edges, uniform over all such sets, sorted."""
        self.prepare()
        total, free = num_pairs(self.num_nodes), num_pairs(self.num_nodes) - self.num_edges
        if count > free:
            raise GraphError(f"asked for {count} non-edges, but the graph has only {free}")
        found = np.empty(0, np.int64)
        while len(found) < count:
            u, v = unrank(sample_distinct(total, min(total, 2 * (count - len(found)) + 16), rng), self.num_nodes)
            self._view("candidates", {"u": u, "v": v})
            fresh = self._pairs(queries.NON_EDGES)
            found = np.union1d(found, rank(fresh[0], fresh[1], self.num_nodes))
        chosen = found[sample_distinct(len(found), count, rng)]
        return np.stack(unrank(chosen, self.num_nodes))

    def ordered_ranks(self) -> Iterator[Int]:
        """Sorted chunks of the pair ranks of all edges."""
        self.prepare()
        for batch in self.engine.batches(queries.ORDERED):
            u, v = (batch.column(k).to_numpy().astype(np.int64) for k in (0, 1))
            if len(u):
                yield rank(u, v, self.num_nodes)

    @property
    def edge_index(self) -> Int:
        """int64 [2, E], u < v, sorted: for graphs that fit in memory."""
        self.prepare()
        return _ordered(self._pairs(queries.EDGES))

    def to_graph(self) -> Graph:
        """An ordinary graph with all of it in memory."""
        x = None if self.table is None else np.concatenate([block.x for block in self.table.blocks()])
        return self.nodes.with_features(x).with_edges(self.edge_index)

    def close(self) -> None:
        """Let the engine go."""
        self.engine.close()

    def _view_clusters(self, clusters: NDArray[Any]) -> None:
        self._view("clusters", {"node": np.arange(self.num_nodes), "cluster": clusters})

    def _number(self, sql: str) -> int:
        return int(next(iter(self.engine.batches(sql))).column(0)[0].as_py())

    def _column(self, sql: str) -> Int:
        parts = [batch.column(0).to_numpy().astype(np.int64) for batch in self.engine.batches(sql)]
        return np.sort(np.concatenate([*parts, np.empty(0, np.int64)]))

    def _pairs(self, sql: str) -> Int:
        parts = [np.stack([b.column(0).to_numpy(), b.column(1).to_numpy()]) for b in self.engine.batches(sql)]
        return np.concatenate([*parts, np.empty((2, 0), np.int64)], axis=1).astype(np.int64)

    def _batches(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """The ends of all edges, batch by batch."""
        for batch in self.engine.batches(queries.EDGES):
            yield batch.column(0).to_numpy(), batch.column(1).to_numpy()

    def _scatter(self, sql: str, out: NDArray[Any]) -> NDArray[Any]:
        for batch in self.engine.batches(sql):
            out[batch.column(0).to_numpy()] = batch.column(1).to_numpy()
        return out


def _ordered(edges: Int) -> Int:
    return edges[:, np.lexsort((edges[1], edges[0]))]


def number_of_rows(edges: str | Path) -> int:
    """The rows of an edge table, from the footers of its files."""
    place = find_tables(edges)
    return sum(open_parquet(place, file).metadata.num_rows for file in place.files)


@contextmanager
def open_graph(
    edges: str | Path,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    *,
    nodes: str | Path | None = None,
    name: str | None = None,
    engine: str = "duckdb",
    work: str | Path | None = None,
    memory: str = "1GB",
    threads: int | None = None,
    id_column: str | None = None,
    source: str | None = None,
    target: str | None = None,
    label_column: str | None = None,
) -> Iterator[StoredGraph]:
    """A graph whose edges stay in a parquet file or folder, or at an fsspec address.

    `work` is a private folder for prepared edges and for what an engine spills (default: a temporary one); give one to
    use the prepared edges again. Features are parquet or ``.npy``, labels and nodes parquet.
    """
    place, columns, whole = find_ends(find_tables(edges), source, target)
    with _work_folder(work) as folder:
        runner = open_engine(engine, folder, memory=memory, threads=threads)
        try:
            title = name or place.name.partition(".")[0] or "graph"
            found = open_nodes(
                features, labels, nodes, name=title, engine=runner, work=folder, id_column=id_column,
                label_column=label_column,
            )  # fmt: skip
            numbered = whole and found.nodes.node_ids is None
            yield StoredGraph(found.nodes, found.table, runner, folder, place, columns, numbered, found.state)
        finally:
            runner.close()


@contextmanager
def _work_folder(given: str | Path | None) -> Iterator[Path]:
    """The owner's private folder for tables and spills."""
    if given is None:
        with tempfile.TemporaryDirectory(prefix="edgeveil-") as scratch:
            yield Path(scratch)
        return
    folder = Path(given)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StorageError(f"cannot make the work folder {folder}: {error.strerror}; name another") from error
    _make_private(folder)
    yield folder


def _make_private(folder: Path) -> None:
    """Edges lie here: nobody else may read them, and a folder of other things is not closed to others."""
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise StorageError(f"the work folder {folder} belongs to somebody else; private edges need one of your own")
    if not found.st_mode & 0o077:
        return
    if any(folder.iterdir()):
        raise StorageError(
            f"the work folder {folder} is open to others (mode {found.st_mode & 0o777:o}) and not empty; private edges "
            "need a folder of their own: name a new one, or chmod 700 this one"
        )
    folder.chmod(0o700)
