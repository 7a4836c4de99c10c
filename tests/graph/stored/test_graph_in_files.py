"""One small graph through memory, DuckDB and Spark: the same exact answers, whoever executes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgeveil.errors import GraphError, MissingExtra, StorageError, UnknownNameError
from edgeveil.graph.cluster_degrees import cluster_degrees
from edgeveil.graph.graph import Graph
from edgeveil.graph.stored.graph_in_files import StoredGraph, number_of_rows, open_graph

N, CLASSES = 120, 3


class Files:
    """A graph as its owner keeps it: loops, repeats, both directions, several files; and the same in memory."""

    def __init__(self, folder: Path, name: str = "") -> None:
        rng = np.random.default_rng(5)
        ends = rng.integers(0, N, (2, 700))
        ends = np.concatenate([ends, ends[:, :60], ends[::-1, :40], np.stack([np.arange(9)] * 2)], axis=1)
        self.x = rng.normal(size=(N, 4)).astype(np.float32)
        self.y = rng.integers(0, CLASSES, N)
        ids: Any = np.arange(N) if not name else np.array([f"{name}{node * 7 % N}" for node in range(N)])
        self.edges, self.nodes = folder / "edges", folder / "nodes.parquet"
        for part in range(3):
            place = self.edges / f"day={part}"
            place.mkdir(parents=True)
            pq.write_table(pa.table({"src": ids[ends[0, part::3]], "dst": ids[ends[1, part::3]]}), place / "0.parquet")
        columns = {"id": ids, **{f"f{k}": self.x[:, k] for k in range(4)}}
        pq.write_table(pa.table(columns), self.nodes, row_group_size=50)
        self.labels = folder / "labels.parquet"
        pq.write_table(pa.table({"id": ids, "label": self.y}), self.labels)
        self.graph = Graph.from_edges(ends, self.x, self.y, node_ids=None if not name else ids)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


ENGINES = ["duckdb", pytest.param("spark:local[2]", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=ENGINES)
def stored(request: pytest.FixtureRequest, files: Files) -> Iterator[StoredGraph]:
    if request.param.startswith("spark"):
        pytest.importorskip("pyspark")
    with open_graph(files.edges, files.nodes, files.labels, engine=request.param, threads=1) as graph:
        yield graph


def test_every_edge_counts_once(stored: StoredGraph, files: Files) -> None:
    assert stored.num_edges == files.graph.num_edges
    np.testing.assert_array_equal(stored.edge_index, files.graph.edge_index)
    np.testing.assert_array_equal(stored.degrees(), files.graph.degrees)
    np.testing.assert_array_equal(np.concatenate(list(stored.ordered_ranks())), files.graph.edge_ranks)


def test_cluster_counts_equal_those_in_memory(stored: StoredGraph, files: Files) -> None:
    for clusters in (files.y, np.zeros(N, np.int64), np.arange(N) % 5):
        count = int(clusters.max()) + 1
        np.testing.assert_array_equal(
            stored.cluster_degrees(clusters, count), cluster_degrees(files.graph, clusters, count)
        )


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_neighbourhoods_hold_all_and_only_what_is_near(stored: StoredGraph, files: Files, hops: int) -> None:
    found = stored.neighbourhood([3, 70], hops)
    near = {3, 70}
    for _ in range(hops):
        near |= {int(v) for u in near for v in files.graph.neighbours(u)}
    assert found.nodes.tolist() == sorted(near)
    assert found.graph.edge_index.tolist() == files.graph.subgraph(found.nodes).edge_index.tolist()
    np.testing.assert_array_equal(found.degrees, files.graph.degrees[found.nodes])


def test_non_edges_are_distinct_and_never_edges(stored: StoredGraph, files: Files) -> None:
    free = N * (N - 1) // 2 - files.graph.num_edges
    for count in (40, free):
        u, v = stored.non_edges(count, np.random.default_rng(0))
        assert len(set(zip(u.tolist(), v.tolist(), strict=True))) == count
        assert not files.graph.has_edges(u, v).any()
    with pytest.raises(GraphError, match="has only"):
        stored.non_edges(free + 1, np.random.default_rng(0))


def test_homophily_and_the_whole_graph(stored: StoredGraph, files: Files) -> None:
    u, v = files.graph.edge_index
    assert stored.homophily() == pytest.approx(float((files.y[u] == files.y[v]).mean()))
    assert stored.to_graph() == files.graph


def test_text_ids_are_numbered_by_the_public_rows(tmp_path: Path) -> None:
    files = Files(tmp_path, "user-")
    with open_graph(files.edges, files.nodes, threads=1) as stored:
        assert stored.node_ids is not None and stored.node_ids.tolist() == files.graph.node_ids.tolist()  # type: ignore[union-attr]
        np.testing.assert_array_equal(stored.edge_index, files.graph.edge_index)


def test_whole_numbers_are_ordered_by_value_whatever_the_order_of_the_rows(tmp_path: Path) -> None:
    ids = np.array([30, 4, 100, 7])
    pq.write_table(pa.table({"id": ids, "a": ids * 2.0}), tmp_path / "nodes.parquet")
    pq.write_table(
        pa.table({"id": ids, "label": ids % 3, "split": ["train", "", "test", "val"]}), tmp_path / "labels.parquet"
    )
    pq.write_table(pa.table({"u": [100, 4], "v": [7, 30]}), tmp_path / "edges.parquet")
    with open_graph(
        tmp_path / "edges.parquet", tmp_path / "nodes.parquet", tmp_path / "labels.parquet", threads=1
    ) as stored:
        assert stored.node_ids is not None and stored.node_ids.tolist() == ["4", "7", "30", "100"]
        assert stored.edge_index.tolist() == [[0, 1], [2, 3]]
        graph = stored.to_graph()
    assert graph.x[:, 0].tolist() == [8.0, 14.0, 60.0, 200.0]
    assert graph.y is not None and graph.y.tolist() == [1, 1, 0, 1]
    assert graph.train_mask is not None and graph.train_mask.tolist() == [False, False, True, False]


class Ranges(SimpleHTTPRequestHandler):
    """A file server that answers for parts of a file, as object stores do."""

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        path, asked = Path(self.translate_path(self.path)), self.headers.get("Range")
        if asked is None or not path.is_file():
            return super().do_GET()
        data = path.read_bytes()
        first, last = (int(end) for end in asked.removeprefix("bytes=").split("-"))
        part = data[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)
        return None


@pytest.fixture(scope="module")
def web(files: Files) -> Iterator[str]:
    pytest.importorskip("aiohttp")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Ranges, directory=str(files.edges.parent)))
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("protocol", ["file", "memory", "http"])
def test_any_fsspec_address_is_a_source(files: Files, protocol: str, request: pytest.FixtureRequest) -> None:
    address, nodes = f"file://{files.edges}", str(files.nodes)
    if protocol == "memory":
        memory = fsspec.filesystem("memory")
        for file in files.edges.rglob("*.parquet"):
            memory.pipe(f"/private/{file.parent.name}/{file.name}", file.read_bytes())
        address = "memory://private"
    if protocol == "http":
        site = request.getfixturevalue("web")
        address, nodes = f"{site}/edges/", f"{site}/nodes.parquet"
    assert number_of_rows(address) == 809
    with open_graph(address, nodes, threads=1) as stored:
        assert stored.num_edges == files.graph.num_edges
        assert stored.table is not None
        np.testing.assert_array_equal(stored.table.rows(np.arange(N)), files.x)


def test_addresses_through_another_one_are_refused(files: Files) -> None:
    with pytest.raises(StorageError, match="name the files' own"), open_graph(f"simplecache::file://{files.edges}"):
        pass


def test_a_work_folder_is_used_again_until_the_source_changes(tmp_path: Path) -> None:
    files = Files(tmp_path)
    for _ in range(2):
        with open_graph(files.edges, files.nodes, work=tmp_path / "work", threads=1) as stored:
            assert stored.num_edges == files.graph.num_edges
        made = (tmp_path / "work" / "edges" / "part-0.parquet").stat().st_mtime_ns
    assert (tmp_path / "work").stat().st_mode & 0o077 == 0
    assert not list((tmp_path / "work").glob("spill-*"))
    pq.write_table(pa.table({"src": [0], "dst": [1]}), files.edges / "new.parquet")
    added = not files.graph.has_edges(0, 1)[0]
    with open_graph(files.edges, files.nodes, work=tmp_path / "work", threads=1) as stored:
        assert stored.num_edges == files.graph.num_edges + added
    assert (tmp_path / "work" / "edges" / "part-0.parquet").stat().st_mtime_ns != made


def test_prepared_edges_follow_what_they_were_made_from(tmp_path: Path) -> None:
    """Other edges in files of the same size, and other nodes under the same number, are other edges."""
    where = tmp_path / "edges.parquet", tmp_path / "nodes.parquet"
    found = []
    for edge, ids in ((("a", "b"), ["a", "b", "c"]), (("a", "c"), ["a", "b", "c"]), (("a", "c"), ["c", "b", "a"])):
        pq.write_table(pa.table({"src": [edge[0]], "dst": [edge[1]]}), where[0])
        pq.write_table(pa.table({"id": ids, "f": [0.0, 1.0, 2.0]}), where[1])
        with open_graph(*where, work=tmp_path / "work", threads=1) as stored:
            assert stored.node_ids is not None
            found.append(stored.node_ids[stored.edge_index[:, 0]].tolist())
    assert found == [["a", "b"], ["a", "c"], ["c", "a"]]


def test_a_work_folder_is_closed_to_others_or_refused(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir(mode=0o755)
    with open_graph(files.edges, files.nodes, work=work, threads=1) as stored:
        stored.prepare()
    assert work.stat().st_mode & 0o777 == 0o700
    work.chmod(0o750)
    with pytest.raises(StorageError, match=r"mode 750.*chmod 700"), open_graph(files.edges, files.nodes, work=work):
        pass
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(StorageError, match="somebody else"), open_graph(files.edges, files.nodes, work=work):
        pass


@pytest.mark.parametrize(
    ("ends", "said"),
    [([[0, N], [1, 2]], f"names node '{N}'"), ([[0, -1], [1, 2]], "names node '-1'"), ([[0, None], [1, 2]], "lacks a node id")],
)  # fmt: skip
def test_an_edge_of_nobody_is_refused(files: Files, tmp_path: Path, ends: Any, said: str) -> None:
    pq.write_table(pa.table({"source": ends[0], "target": ends[1]}), tmp_path / "edges.parquet")
    with (
        open_graph(tmp_path / "edges.parquet", files.nodes, threads=1) as stored,
        pytest.raises(GraphError, match=said),
    ):
        stored.prepare()


def test_nodes_never_come_from_the_edges(files: Files) -> None:
    with pytest.raises(GraphError, match="public list of all nodes"), open_graph(files.edges, threads=1):
        pass


def test_bad_files_are_named(files: Files, tmp_path: Path) -> None:
    (tmp_path / "edges.parquet").write_bytes(b"no parquet")
    for wrong in (tmp_path / "edges.parquet", tmp_path / "absent", "memory://nowhere/at/all"):
        with pytest.raises(StorageError), open_graph(wrong, files.nodes):
            pass
    pq.write_table(pa.table({"source": [0.5], "target": [1.0]}), tmp_path / "edges.parquet")
    with pytest.raises(GraphError, match="whole numbers or text"), open_graph(tmp_path / "edges.parquet", files.nodes):
        pass
    x = np.zeros((N, 2), np.float32)
    x[7, 1] = np.nan
    np.save(tmp_path / "x.npy", x)
    with open_graph(files.edges, tmp_path / "x.npy", threads=1) as stored:
        assert stored.table is not None
        with pytest.raises(GraphError, match="feature 1 of node 7 is nan"):
            stored.table.read(0)


def test_an_absent_engine_is_one_clear_sentence(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r"edgeveil\[scale\]"), open_graph(files.edges, files.nodes):
        pass
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtra, match=r"edgeveil\[spark\]"), open_graph(files.edges, files.nodes, engine="spark"):
        pass
    with pytest.raises(UnknownNameError, match="duckdb"), open_graph(files.edges, files.nodes, engine="sqlite"):
        pass


def test_memory_beyond_the_limit_spills_to_the_work_folder(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pq.write_table(
        pa.table({"source": rng.integers(0, 10**6, 3 * 10**6), "target": rng.integers(0, 10**6, 3 * 10**6)}),
        tmp_path / "edges.parquet",
    )
    np.save(tmp_path / "x.npy", np.zeros((10**6, 1), np.float32))
    with open_graph(tmp_path / "edges.parquet", tmp_path / "x.npy", memory="60MB", threads=1) as stored:
        assert 0.999 < stored.num_edges / (3 * 10**6) <= 1


def test_rows_of_some_nodes_are_those_of_the_table(files: Files) -> None:
    with open_graph(files.edges, files.nodes, threads=1) as stored:
        assert stored.table is not None
        nodes = np.array([0, 49, 50, 119])
        np.testing.assert_array_equal(stored.table.rows(nodes), files.x[nodes])
