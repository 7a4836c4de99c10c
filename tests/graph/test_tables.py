"""Own files: any node ids, nothing lost without a word, and errors that name the row."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeveil.errors import GraphError, StorageError
from edgeveil.graph.files.read_graph import read_graph
from edgeveil.graph.files.writers import write_edges, write_features, write_labels
from edgeveil.graph.graph import Graph
from edgeveil.graph.validate import Collapsed
from tries import tries


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def edges_of(graph: Graph) -> set[frozenset[str]]:
    ids = graph.node_ids if graph.node_ids is not None else np.arange(graph.num_nodes).astype(str)
    return {frozenset((str(ids[u]), str(ids[v]))) for u, v in graph.edge_index.T}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.csv", "source,target\nanna,bob\nbob,carl\n"),
        ("e.csv", "anna,bob\nbob,carl"),
        ("e.csv", "anna,bob\r\nbob,carl\r\n"),
        ("e.csv", "\ufefffrom,to\nanna,bob\nbob,carl\n"),
        ("e.csv", 'target,source\n"bob","anna"\n"carl","bob"\n'),
        ("e.tsv", "u\tv\nanna\tbob\nbob\tcarl\n"),
        ("e.txt", "# a comment\nanna bob\n\nbob   carl\n"),
        ("e.txt", "% other\nanna;bob\nbob;carl\n"),
    ],
)
def test_edge_lists_in_many_dresses(tmp_path: Path, name: str, text: str) -> None:
    graph = read_graph(write(tmp_path / name, text))
    assert edges_of(graph) == {frozenset(("anna", "bob")), frozenset(("bob", "carl"))}
    assert graph.name == "e" and graph.collapsed == Collapsed()


def test_ids_may_hold_delimiters_quotes_and_any_script(tmp_path: Path) -> None:
    graph = read_graph(write(tmp_path / "e.csv", 'source,target\n"Doe, ""J""",Ünal\n東京,"a b"\n'))
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == ['Doe, "J"', "東京", "Ünal", "a b"] or set(graph.node_ids) == {
        'Doe, "J"', "Ünal", "東京", "a b"}  # fmt: skip


def test_whole_numbers_keep_their_order_and_gaps_become_isolated_nodes(tmp_path: Path) -> None:
    graph = read_graph(write(tmp_path / "e.csv", "10,2\n2,3\n0,1\n4,5\n7,8\n"))
    assert graph.num_nodes == 11 and graph.node_ids is None and graph.has_edges(10, 2).all()
    sparse = read_graph(write(tmp_path / "f.csv", "1000,20\n20,3\n"))
    assert sparse.node_ids is not None and sparse.node_ids.tolist() == ["3", "20", "1000"]


def test_weights_and_direction_are_collapsed_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "e.csv", "source,target,weight,colour\na,b,0.5,red\nb,a,2,red\nb,c,1,blue\nc,c,1,red\n")
    graph = read_graph(path)
    assert graph.collapsed == Collapsed(self_loops=1, reversed=1, weights=True, one_way=1)
    assert "all edge weights" in caplog.text and "the direction of 1 edges" in caplog.text
    assert "ignored columns colour" in caplog.text
    plain = read_graph(write(tmp_path / "p.csv", "a,b,1\nb,c,1\n"))
    assert plain.collapsed == Collapsed()
    assert read_graph(tmp_path / "p.csv", directed=True).collapsed.one_way == 2
    gephi = read_graph(write(tmp_path / "g.csv", "Source,Target,Type\na,b,Directed\nb,c,Directed\n"))
    assert gephi.collapsed.one_way == 2
    assert read_graph(path, directed=False).collapsed.one_way == 0


def test_features_and_labels_join_by_id(tmp_path: Path) -> None:
    edges = write(tmp_path / "e.csv", "a,b\nb,c\n")
    features = write(tmp_path / "x.csv", "node,f1,f2\nc,5,6\nb,3,4\na,1,2\n")
    labels = write(tmp_path / "y.csv", "node,class,split\nb,dog,train\na,cat,test\nd,,\n")
    with pytest.raises(GraphError, match=r"no row for node 'd' \(1 such nodes in y.csv\)"):
        read_graph(edges, features, labels)
    write(tmp_path / "x.csv", "node,f1,f2\nc,5,6\nb,3,4\na,1,2\nd,0,0.1\n")
    graph = read_graph(edges, features, labels)
    ids = graph.node_ids.tolist()
    assert ids == ["c", "b", "a", "d"] and graph.num_edges == 2 and graph.degrees[3] == 0
    assert graph.x[ids.index("a")].tolist() == [1, 2] and graph.x.dtype == np.float64
    assert dict(zip(ids, graph.y.tolist(), strict=True)) == {"a": 0, "b": 1, "c": -1, "d": -1}
    assert graph.num_classes == 2 and graph.split == "given"
    assert graph.train_mask[ids.index("b")] and graph.test_mask[ids.index("a")] and graph.train_mask.sum() == 1


def test_labels_numbers_names_and_multi_hot(tmp_path: Path) -> None:
    edges = write(tmp_path / "e.csv", "0,1\n1,2\n2,3\n")

    def y(text: str) -> Graph:
        return read_graph(edges, labels=write(tmp_path / "y.csv", text))

    assert y("0,0\n1,2\n2,1\n3,-1\n").y.tolist() == [0, 2, 1, -1]
    assert y("id,label\n0,3\n1,9\n2,3\n").y.tolist() == [0, 1, 0, -1]
    assert y("id,label\n0,b\n1,a\n2,b\n").y.tolist() == [1, 0, 1, -1]
    multi = y("id,l1,l2\n0,1,0\n1,1,1\n2,0,0\n3,0,1\n")
    assert multi.multilabel and multi.y.tolist() == [[1, 0], [1, 1], [0, 0], [0, 1]]
    with pytest.raises(GraphError, match="must hold 0 or 1, but there is '7'"):
        y("id,l1,l2\n0,1,7\n")
    with pytest.raises(GraphError, match="node '0' has two different labels"):
        y("0,1\n0,0\n")
    with pytest.raises(GraphError, match="split 'trian' is none of"):
        y("id,label,split\n0,1,trian\n")


def test_matrix_features_belong_to_numbered_nodes_or_to_the_label_order(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(3, 2))
    graph = read_graph(write(tmp_path / "e.csv", "0,2\n"), tmp_path / "x.npy")
    assert graph.num_nodes == 3 and graph.x[2].tolist() == [4, 5]
    named = write(tmp_path / "n.csv", "a,c\n")
    with pytest.raises(GraphError, match=r"x\.npy has no row for node 'a'.*3 rows without ids"):
        read_graph(named, tmp_path / "x.npy")
    graph = read_graph(named, tmp_path / "x.npy", write(tmp_path / "y.csv", "b,0\na,1\nc,0\n"))
    assert graph.node_ids.tolist() == ["b", "a", "c"] and graph.x[1].tolist() == [2, 3]
    sp.save_npz(tmp_path / "s.npz", sp.csr_matrix(np.eye(3)))
    assert sp.issparse(read_graph(tmp_path / "e.csv", tmp_path / "s.npz").x)
    np.savez(tmp_path / "d.npz", anything=np.eye(3), node_ids=np.array(["c", "a", "b"]))
    assert read_graph(named, tmp_path / "d.npz").node_ids.tolist() == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("edges", "features", "message"),
    [
        ("a,b\nc\n", None, "row 2 has 1 columns instead of 2: 'c'"),
        ("a\nb\n", None, "one column"),
        ("# nothing\n", None, "no rows"),
        ("a,b\n,a\n", None, "edge 1 lacks a node id"),
        ("a,b\n", "node,f\na,1\nb,x\n", "row 3, column 'f': 'x' is no number"),
        ("a,b\n", "node,f\na,1\na,2\nb,1\n", "two rows for node 'a'"),
    ],
)
def test_errors_name_the_place(tmp_path: Path, edges: str, features: str | None, message: str) -> None:
    x = None if features is None else write(tmp_path / "x.csv", features)
    with pytest.raises(GraphError, match=message):
        read_graph(write(tmp_path / "e.csv", edges), x)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no such file"):
        read_graph(tmp_path / "absent.csv")
    with pytest.raises(GraphError, match=r"unknown kind '\.xls'"):
        read_graph(write(tmp_path / "e.xls", "a,b\n"))
    (tmp_path / "latin.csv").write_bytes(b"a,b\n\xe9,c\n")
    with pytest.raises(StorageError, match="not UTF-8"):
        read_graph(tmp_path / "latin.csv")
    good = write(tmp_path / "e.csv", "0,1\n")
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY broken")
    with pytest.raises(StorageError, match="not a readable array"):
        read_graph(good, tmp_path / "x.npy")
    (tmp_path / "e.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(StorageError, match="not a readable parquet"):
        read_graph(tmp_path / "e.parquet")


names = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp", "Zs")), min_size=1, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=tries(40))
@given(
    st.lists(
        names.filter(lambda t: t[0] not in "#%" and t.strip() == t and t.isprintable()),
        min_size=2,
        max_size=6,
        unique=True,
    ),
    st.sampled_from([".csv", ".tsv", ".parquet"]),
    st.sampled_from([".npz", ".csv", ".parquet"]),
    st.data(),
)
def test_written_files_read_back(tmp_path: Path, ids: list[str], kind: str, x_kind: str, data: st.DataObject) -> None:
    n = len(ids)
    picked = data.draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), min_size=1))
    edges = np.array([(u, v) for u, v in picked if u != v] or [(0, 1)]).T
    mask = np.arange(n) == 0
    graph = Graph.from_edges(edges, np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2, node_ids=ids, train_mask=mask)
    files = {
        "edges": write_edges(graph, tmp_path / f"e{kind}"),
        "features": write_features(graph, tmp_path / f"x{x_kind}"),
        "labels": write_labels(graph, tmp_path / f"y{kind}"),
    }
    back = read_graph(**files)
    back_ids = back.node_ids.tolist() if back.node_ids is not None else [str(i) for i in range(n)]
    assert back.subgraph([back_ids.index(i) for i in ids]) == graph


def test_writers_refuse_what_is_not_there(tmp_path: Path) -> None:
    graph = Graph.from_edges([[0], [1]])
    with pytest.raises(GraphError, match="no labels"):
        write_labels(graph, tmp_path / "y.csv")
    with pytest.raises(GraphError, match="no features"):
        write_features(graph, tmp_path / "x.csv")
    with pytest.raises(GraphError, match=r"unknown kind '\.doc'"):
        write_edges(graph, tmp_path / "e.doc")
    dense = graph.with_features(np.eye(2))
    assert np.load(write_features(dense, tmp_path / "x.npy")).tolist() == [[1, 0], [0, 1]]


@pytest.mark.slow
def test_a_million_edges_load_in_seconds(tmp_path: Path) -> None:
    """Well under a CPU second of reading; the bound leaves room for a slow, shared machine."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 200_000, (1_000_000, 2))
    path = tmp_path / "big.csv"
    path.write_text("source,target\n" + "".join(f"user-{a},user-{b}\n" for a, b in ends.tolist()))
    start = time.process_time()
    graph = read_graph(path)
    assert time.process_time() - start < 10
    assert graph.num_edges > 990_000
