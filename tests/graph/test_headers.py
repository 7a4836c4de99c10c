"""A first line is read as what it is: names of columns, or data; in doubt the user is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeveil.errors import GraphError
from edgeveil.graph.files.read_graph import read_graph
from edgeveil.graph.graph import Graph

PEOPLE = "anna,bob\ncarl,dora\n"
LISTED = "anna\nbob\ncarl\ndora\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def edges_of(graph: Graph) -> set[frozenset[str]]:
    ids = range(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    return {frozenset((str(ids[u]), str(ids[v]))) for u, v in graph.edge_index.T}


TWO = {frozenset(("anna", "bob")), frozenset(("carl", "dora"))}


@pytest.mark.parametrize("head", ["user,item\n", "source,target\n", "Member A,Member B\n", ""])
@pytest.mark.parametrize("file", ["nodes", "features", "labels"])
def test_a_header_is_told_by_the_ids_of_another_file(tmp_path: Path, head: str, file: str) -> None:
    others = {
        "nodes": {"nodes": write(tmp_path / "n.txt", LISTED)},
        "features": {"features": write(tmp_path / "x.csv", "who,f\nanna,1\nbob,2\ncarl,3\ndora,4\n")},
        "labels": {"labels": write(tmp_path / "y.csv", "id,label\nanna,1\nbob,2\ncarl,1\ndora,2\n")},
    }[file]
    edges = write(tmp_path / "e.csv", head + PEOPLE)
    graph = read_graph(edges, **others)
    assert edges_of(graph) == TWO and graph.num_nodes == 4 and graph.public_nodes


def test_labels_of_some_nodes_decide_nothing(tmp_path: Path) -> None:
    labels = write(tmp_path / "y.csv", "id,label\nanna,1\nbob,2\ncarl,1\n")
    with pytest.raises(GraphError, match="may be a header or an edge"):
        read_graph(write(tmp_path / "e.csv", "user,item\n" + PEOPLE), labels=labels)
    assert edges_of(read_graph(write(tmp_path / "e.csv", PEOPLE), labels=labels)) == TWO


def test_without_another_file_doubt_is_refused_and_the_user_decides(tmp_path: Path) -> None:
    doubt = write(tmp_path / "e.csv", "user,item\n" + PEOPLE)
    with pytest.raises(GraphError, match=r"e\.csv: the first line 'user,item' may be a header or an edge.*--no-header"):
        read_graph(doubt)
    assert edges_of(read_graph(doubt, header=True)) == TWO
    assert edges_of(read_graph(doubt, header=False)) == {*TWO, frozenset(("user", "item"))}


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("user,item\n1,2\n2,3\n", {("1", "2"), ("2", "3")}),  # text above numbers
        ("1,2\n2,3\n", {("1", "2"), ("2", "3")}),
        ("1,2\na,b\n", {("1", "2"), ("a", "b")}),  # a number is never a name of a column
        ("from,to\na,b\n", {("a", "b")}),
        ("weight,source,target\n1,a,b\n1,b,c\n", {("a", "b"), ("b", "c")}),
        ("anna,bob\nbob,carl\n", {("anna", "bob"), ("bob", "carl")}),  # bob comes again, so he is a node
        ("anna , bob\ncarl, bob \n", {("anna", "bob"), ("carl", "bob")}),
        ("anna,bob\n", {("anna", "bob")}),  # a header of nothing would be no edge list
        ("source,target\n", set()),
        ("-,5\n5,-\n", {("-", "5")}),
    ],
)
def test_an_edge_list_alone(tmp_path: Path, text: str, edges: set[tuple[str, str]]) -> None:
    path = write(tmp_path / "e.csv", text)
    if not edges:
        with pytest.raises(GraphError):
            read_graph(path)
        return
    assert edges_of(read_graph(path)) == {frozenset(pair) for pair in edges}


def test_nodes_named_like_columns_are_refused_unless_the_user_says(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", "u,v\nv,w\n")
    with pytest.raises(GraphError, match="may be a header"):
        read_graph(path)
    with pytest.raises(GraphError, match="may be a header"):
        read_graph(path, nodes=write(tmp_path / "n.txt", "u\nv\nw\n"))
    assert read_graph(path, header=False).num_edges == 2 and read_graph(path, header=True).num_edges == 1


def test_a_first_edge_with_an_unknown_end_is_an_error_and_not_a_header(tmp_path: Path) -> None:
    nodes = write(tmp_path / "n.txt", LISTED)
    with pytest.raises(GraphError, match="does not list node 'bobb'"):
        read_graph(write(tmp_path / "e.csv", "anna,bobb\ncarl,dora\n"), nodes=nodes)
    with pytest.raises(GraphError, match="does not list node '7'"):
        read_graph(write(tmp_path / "e.csv", "7,8\ncarl,dora\n"), nodes=nodes)
    with pytest.raises(GraphError, match="does not list node 'eve'"):
        read_graph(write(tmp_path / "e.csv", "eve,fred\ngus,hal\n"), nodes=nodes)


def test_the_header_of_labels_is_told_by_a_list_of_nodes(tmp_path: Path) -> None:
    edges, nodes = write(tmp_path / "e.csv", PEOPLE), write(tmp_path / "n.txt", LISTED)
    labels = write(tmp_path / "y.csv", "member,team\nanna,red\nbob,red\ncarl,blue\n")
    graph = read_graph(edges, labels=labels, nodes=nodes)
    assert graph.num_nodes == 4 and graph.num_classes == 2 and graph.y.tolist() == [1, 1, 0, -1]
