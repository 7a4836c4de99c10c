"""The nodes of a graph, their order and whether they are public never come from its edges unnoticed."""

from __future__ import annotations

import re
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeveil.errors import GraphError
from edgeveil.graph.files.ids import canonical_order
from edgeveil.graph.files.read_graph import read_graph
from edgeveil.graph.graph import Graph
from edgeveil.graph.npz import read_npz, write_npz
from edgeveil.graph.nx import from_networkx, to_networkx
from edgeveil.runs.shared_graphs import from_arrays, to_arrays

PAIRS = [("dora", "anna"), ("bert", "cleo"), ("emil", "bert")]


def write(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in pairs), encoding="utf-8")
    return path


@given(st.sets(st.text(min_size=1)), st.randoms())
def test_the_order_is_a_function_of_the_set(ids: set[str], random: object) -> None:
    shuffled = list(ids)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert canonical_order(shuffled) == canonical_order(ids) and set(canonical_order(ids)) == ids


def test_whole_numbers_are_ordered_by_value() -> None:
    assert canonical_order(["10", "9", "100"]) == ["9", "10", "100"]
    assert canonical_order(["10", "09", "9"]) == ["09", "10", "9"]
    assert canonical_order(["2", "b", "10"]) == ["10", "2", "b"]


@settings(deadline=None, max_examples=25)
@given(st.permutations(PAIRS), st.lists(st.booleans(), min_size=3, max_size=3))
def test_how_edges_are_written_never_moves_a_node(
    tmp_path_factory: pytest.TempPathFactory, order: list[tuple[str, str]], turned: list[bool]
) -> None:
    folder = tmp_path_factory.mktemp("edges")
    pairs = [pair[::-1] if turn else pair for pair, turn in zip(order, turned, strict=True)]
    graph, first = read_graph(write(folder / "e.csv", pairs)), read_graph(write(folder / "f.csv", PAIRS))
    assert graph.node_ids.tolist() == ["anna", "bert", "cleo", "dora", "emil"] and graph == first
    by_hand = from_networkx(networkx.Graph(pairs))
    assert by_hand.node_ids.tolist() == graph.node_ids.tolist() and by_hand == first
    assert not graph.public_nodes and not by_hand.public_nodes


def test_a_node_list_makes_the_nodes_independent_of_the_edges(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("zoe\nanna\nbert\ncleo\ndora\nemil\n", encoding="utf-8")
    for pairs in (PAIRS, PAIRS[:1], PAIRS[1:], [*PAIRS, ("zoe", "emil")]):
        graph = read_graph(write(tmp_path / "e.csv", pairs), nodes=tmp_path / "n.txt")
        assert graph.node_ids.tolist() == ["anna", "bert", "cleo", "dora", "emil", "zoe"] and graph.public_nodes
        by_hand = from_networkx(networkx.Graph(pairs), nodes=["zoe", "anna", "bert", "cleo", "dora", "emil"])
        assert by_hand == graph and by_hand.public_nodes
    with pytest.raises(GraphError, match=r"n\.txt does not list node 'carl' \(1 such nodes in e\.csv\)"):
        read_graph(write(tmp_path / "e.csv", [("anna", "carl")]), nodes=tmp_path / "n.txt")
    with pytest.raises(GraphError, match="does not list 'carl'"):
        from_networkx(networkx.Graph([("anna", "carl")]), nodes=["anna"])


def test_numbers_without_a_list_are_read_off_the_edges_and_with_one_are_not(tmp_path: Path) -> None:
    edges = write(tmp_path / "e.csv", [("7", "2"), ("5", "6")])
    assert read_graph(edges).num_nodes == 8 and not read_graph(edges).public_nodes
    (tmp_path / "n.csv").write_text("node,age\n10,3\n9,4\n7,1\n2,5\n5,5\n6,5\n", encoding="utf-8")
    graph = read_graph(edges, nodes=tmp_path / "n.csv")
    assert graph.node_ids.tolist() == ["2", "5", "6", "7", "9", "10"] and graph.public_nodes


def test_labels_are_a_public_list_only_if_they_cover_every_node(tmp_path: Path) -> None:
    edges = write(tmp_path / "e.csv", PAIRS)
    labels = tmp_path / "y.csv"
    labels.write_text("id,label\nanna,0\nbert,1\ncleo,1\ndora,0\n", encoding="utf-8")
    partial = read_graph(edges, labels=labels)
    assert partial.num_nodes == 5 and not partial.public_nodes
    labels.write_text("id,label\nanna,0\nbert,1\ncleo,1\ndora,0\nemil,\n", encoding="utf-8")
    assert read_graph(edges, labels=labels).public_nodes
    (tmp_path / "n.txt").write_text("anna\nbert\ncleo\ndora\nemil\n", encoding="utf-8")
    labels.write_text("id,label\nanna,0\n", encoding="utf-8")
    assert read_graph(edges, labels=labels, nodes=tmp_path / "n.txt").public_nodes


def test_features_keep_the_numbering_of_their_rows(tmp_path: Path) -> None:
    """A model that exists numbers its nodes by its feature rows; they are public, and no edge moves them."""
    (tmp_path / "x.csv").write_text("id,f\nemil,5\nanna,1\ndora,4\ncleo,3\nbert,2\n", encoding="utf-8")
    for pairs in (PAIRS, PAIRS[::-1], PAIRS[:1]):
        graph = read_graph(write(tmp_path / "e.csv", pairs), tmp_path / "x.csv")
        assert graph.node_ids.tolist() == ["emil", "anna", "dora", "cleo", "bert"] and graph.public_nodes
        assert graph.x[:, 0].tolist() == [5, 1, 4, 3, 2]
    np.save(tmp_path / "x.npy", np.arange(5.0)[:, None])
    (tmp_path / "n.txt").write_text("emil\nanna\ndora\ncleo\nbert\n", encoding="utf-8")
    matrix = read_graph(tmp_path / "e.csv", tmp_path / "x.npy", nodes=tmp_path / "n.txt")
    assert dict(zip(matrix.node_ids.tolist(), matrix.x[:, 0].tolist(), strict=True))["dora"] == 2.0


@pytest.mark.parametrize(
    ("text", "message"),
    [("a\nb\na\n", "lists node 'a' twice"), ("id\n", "lists no node"), ("id,age\na,1\n,2\n", "row 3 lacks a node id")],
)
def test_bad_node_lists(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "n.csv").write_text(text, encoding="utf-8")
    with pytest.raises(GraphError, match=message):
        read_graph(write(tmp_path / "e.csv", [("a", "b")]), nodes=tmp_path / "n.csv")


def test_the_word_travels_with_the_graph(tmp_path: Path) -> None:
    derived, stated = Graph.from_edges([[0], [3]]), Graph.from_edges([[0], [3]], num_nodes=4)
    assert not derived.public_nodes and stated.public_nodes
    for graph in (derived, stated):
        back = read_npz(write_npz(graph, tmp_path / "g.npz"))
        changed = graph.with_edges([[1], [2]]).with_features(np.eye(4)).with_labels([0, 1, 0, 1]).subgraph([0, 3])
        copies = [back, changed, from_arrays(*to_arrays(graph)), from_networkx(to_networkx(graph)), graph.named("x")]
        assert {copy.public_nodes for copy in copies} == {graph.public_nodes}
    assert derived.with_public_nodes().public_nodes
    with pytest.raises(GraphError, match=re.escape("--nodes FILE")):
        derived.check_public_nodes()


def test_a_file_that_does_not_say_is_not_trusted(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", edge_index=np.array([[0], [1]]), node_ids=np.array(["a", "b"]))
    assert not read_npz(tmp_path / "g.npz").public_nodes
    np.savez(tmp_path / "g.npz", edge_index=np.array([[0], [1]]), y=np.array([0, 1]))
    assert read_npz(tmp_path / "g.npz").public_nodes


def test_networkx_attributes_make_nodes_public_only_on_all_nodes() -> None:
    source = networkx.Graph([("b", "a")])
    source.nodes["a"]["y"] = 1
    assert not from_networkx(source).public_nodes
    source.nodes["b"]["y"] = 0
    graph = from_networkx(source)
    assert graph.public_nodes and graph.y.tolist() == [1, 0]
    with pytest.raises(GraphError, match="two nodes are written '1'"):
        from_networkx(networkx.Graph([(1, "1")]))


FIRST_LINES = {
    "nodes": ("root\n", "u1\nu2\nu3\nu4\n"),
    "features": ("root,red\n", "u1,blue\nu2,green\nu3,blue\nu4,green\n"),
    "labels": ("root,a\n", "u1,b\nu2,c\nu3,b\nu4,c\n"),
}


@pytest.mark.parametrize("kind", FIRST_LINES)
def test_one_edge_never_decides_whether_a_first_line_is_a_node(tmp_path: Path, kind: str) -> None:
    """The edge of `root` made its line a node, and without that edge it was a header: the published set of nodes told.

    What may be published is the same set in both worlds; where only the edge list could decide, nothing may be.
    """
    first, rest = FIRST_LINES[kind]
    (tmp_path / "table.csv").write_text(first + rest, encoding="utf-8")
    ring, told = [("u1", "u2"), ("u2", "u3"), ("u3", "u4"), ("u4", "u1")], []
    for pairs in (ring, [*ring, ("root", "u3")]):
        try:
            graph = read_graph(write(tmp_path / "e.csv", pairs), **{kind: tmp_path / "table.csv"})
        except GraphError:
            continue
        if graph.public_nodes:
            told.append(sorted(graph.node_ids))
            continue
        with pytest.raises(GraphError, match=r"first line of table.csv is a (header|node).*edge list alone"):
            graph.check_public_nodes()
    assert len(told) <= 1
    (tmp_path / "table.csv").write_text({"nodes": "node\n"}.get(kind, "node,label\n") + first + rest, encoding="utf-8")
    for pairs in (ring, [*ring, ("root", "u3")]):
        graph = read_graph(write(tmp_path / "e.csv", pairs), **{kind: tmp_path / "table.csv"})
        assert graph.public_nodes and sorted(graph.node_ids) == ["root", "u1", "u2", "u3", "u4"]


def test_an_id_column_that_only_edges_know_is_not_public(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("node,user\n1,u1\n2,u2\n3,u3\n", encoding="utf-8")
    edges = write(tmp_path / "e.csv", [("u1", "u2"), ("u2", "u3")])
    with pytest.raises(GraphError, match="--id-column"):
        read_graph(edges, nodes=tmp_path / "n.csv").check_public_nodes()
    read_graph(edges, nodes=tmp_path / "n.csv", id_column="user").check_public_nodes()


def test_networkx_edits_after_export_end_the_word_that_nodes_are_public(tmp_path: Path) -> None:
    """Cutting a graph to some edges, or adding one, changes who is there; the graph's attribute used to survive that."""
    known = Graph.from_edges([[0, 1], [1, 2]], num_nodes=4, node_ids=["a", "b", "c", "d"])
    written = to_networkx(known)
    assert from_networkx(written).public_nodes
    grown = to_networkx(known)
    grown.add_edge("a", "zoe")
    for other in (written.edge_subgraph([("a", "b")]), grown, networkx.Graph([("a", "b")], public_nodes=True)):
        assert not from_networkx(other).public_nodes
