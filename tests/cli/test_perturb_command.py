from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from command import edgeveil
from edgeveil.cli.main import build_app
from edgeveil.cli.truth import in_order_of, read_truth
from edgeveil.errors import InputError
from edgeveil.graph.datasets import load
from edgeveil.graph.graph import Graph
from edgeveil.graph.npz import read_npz


def perturb(*args: str) -> None:
    assert CliRunner().invoke(build_app(), ["perturb", *args], catch_exceptions=False).exit_code == 0


def test_writes_noisy_edges_and_the_guarantee_and_nothing_else(tmp_path: Path) -> None:
    perturb("cora-twin", "--defence", "lapgraph", "--epsilon", "4", "--out", str(tmp_path / "noisy"))
    assert sorted(p.name for p in (tmp_path / "noisy").iterdir()) == ["graph.npz", "manifest.json"]
    with np.load(tmp_path / "noisy" / "graph.npz") as archive:
        assert set(archive.files) <= {"edge_index", "meta", "node_ids"}
    noisy, secret = read_npz(tmp_path / "noisy"), load("cora-twin")
    assert noisy.num_nodes == secret.num_nodes and noisy.x is None and noisy.y is None and not noisy.splits
    assert 0.02 < noisy.has_edges(*secret.edge_index).mean() < 0.2
    text = (tmp_path / "noisy" / "manifest.json").read_text()
    manifest = json.loads(text)
    assert manifest["guarantee"]["epsilon"] == 4.0 and manifest["guarantee"]["randomness"] == "operating-system entropy"
    assert manifest["num_edges"] == noisy.num_edges and secret.fingerprint not in text


def test_a_seed_is_honoured_and_labelled(tmp_path: Path) -> None:
    for name in "ab":
        perturb("cora-twin", "--defence", "edgerand", "--epsilon", "6", "--seed", "1", "--out", str(tmp_path / name))
    assert read_npz(tmp_path / "a") == read_npz(tmp_path / "b")
    assert "not private" in (tmp_path / "a" / "manifest.json").read_text()


@pytest.mark.parametrize(
    "args", [["--epsilon", "0"], [], ["--defence", "mlp"], ["--defence", "nothing", "--epsilon", "1"]]
)
def test_bad_usage(args: list[str], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        perturb("cora-twin", "--out", str(tmp_path / "x"), *args)
    assert not (tmp_path / "x").exists()


def test_an_earlier_export_is_never_overwritten(tmp_path: Path) -> None:
    perturb("cora-twin", "--epsilon", "4", "--out", str(tmp_path))
    with pytest.raises(InputError, match="spends epsilon again"):
        perturb("cora-twin", "--epsilon", "4", "--out", str(tmp_path))


def matching(names: list[str]) -> list[tuple[str, str]]:
    return list(zip(names[: len(names) // 2], names[len(names) // 2 :], strict=True))


def own_files(folder: Path, pairs: list[tuple[str, str]], nodes: list[str], head: str = "source,target\n") -> list[str]:
    (folder / "edges.csv").write_text(head + "".join(f"{u},{v}\n" for u, v in pairs), encoding="utf-8")
    (folder / "nodes.txt").write_text("".join(f"{node}\n" for node in nodes), encoding="utf-8")
    return ["--edges", str(folder / "edges.csv"), "--nodes", str(folder / "nodes.txt"), "--epsilon", "0.1"]


def exported(folder: Path, args: list[str], name: str) -> Graph:
    perturb(*args, "--out", str(folder / name))
    return read_npz(folder / name)


@pytest.mark.parametrize("kind", ["names", "numbers"])
def test_an_adversary_reads_no_edge_off_the_order_of_the_nodes(tmp_path: Path, kind: str) -> None:
    """300 edges, LapGraph at epsilon 0.1: the order of ids used to give away every one of them."""
    rng = np.random.default_rng(7)
    numbers = rng.permutation(600)
    names = [f"user-{i}" if kind == "names" else str(i) for i in numbers]
    pairs = matching(names)
    secret = {frozenset(pair) for pair in pairs}
    graph = exported(tmp_path, own_files(tmp_path, pairs, names), "first")  # the list is in the order of the edges
    ids = [str(i) for i in range(600)] if graph.node_ids is None else graph.node_ids.tolist()
    for guess in (matching(ids), list(zip(ids[::2], ids[1::2], strict=True)), matching(ids[::-1])):
        assert sum(frozenset(pair) in secret for pair in guess) <= 6  # 0.5 expected; more than 6 has chance 1e-6
    shuffled = [pairs[i] for i in rng.permutation(300)]
    turned = [pair[::-1] if i % 2 else pair for i, pair in enumerate(pairs)]
    for number, changed in enumerate((shuffled, turned, pairs[1:], [*pairs, (names[0], names[1])])):
        again = exported(tmp_path, own_files(tmp_path, changed, names), f"again {number}")
        assert again.num_nodes == 600 and again.name == graph.name
        np.testing.assert_array_equal(
            np.arange(600) if again.node_ids is None else again.node_ids,
            np.arange(600) if graph.node_ids is None else graph.node_ids,
        )
        order = again.edge_index[0] * 600 + again.edge_index[1]
        assert (np.diff(order) > 0).all()  # sorted: which noisy edge was a true one is not in the order either


@pytest.mark.parametrize("command", ["perturb", "release"])
def test_an_edge_list_alone_is_refused_with_the_reason_and_the_remedy(tmp_path: Path, command: str) -> None:
    args = own_files(tmp_path, [("a", "b"), ("b", "c"), ("c", "a")], ["a", "b", "c"])
    alone = [args[0], args[1], *args[4:], "--out", str(tmp_path / "out")]
    run = edgeveil(command, *alone, cwd=tmp_path)
    assert run.returncode == 2 and not (tmp_path / "out").exists()
    if command == "perturb":
        assert "--nodes FILE" in run.stderr and "read off its edges" in run.stderr


def test_numbers_with_gaps_name_the_listed_nodes_only(tmp_path: Path) -> None:
    graph = exported(tmp_path, own_files(tmp_path, [("5", "70"), ("3", "5")], ["70", "5", "3", "8"]), "out")
    assert graph.node_ids.tolist() == ["3", "5", "8", "70"]


def test_a_node_list_goes_with_own_edges(tmp_path: Path) -> None:
    (tmp_path / "nodes.txt").write_text("a\n", encoding="utf-8")
    with pytest.raises(InputError, match="go with --edges"):
        perturb("cora-twin", "--nodes", str(tmp_path / "nodes.txt"), "--epsilon", "1", "--out", str(tmp_path / "x"))


def test_a_header_of_unknown_words_is_no_edge(tmp_path: Path) -> None:
    args = own_files(tmp_path, [("anna", "bob"), ("carl", "dora")], ["anna", "bob", "carl", "dora"], "user,item\n")
    assert exported(tmp_path, args, "out").node_ids.tolist() == ["anna", "bob", "carl", "dora"]
    with pytest.raises(InputError, match="does not list node 'user'"):
        perturb(*args, "--no-header", "--out", str(tmp_path / "x"))


def test_truth_drops_a_header_and_never_an_edge(tmp_path: Path) -> None:
    truth, ids = tmp_path / "truth.csv", tmp_path / "ids.csv"
    ids.write_text("who\nanna\nbob\ncarl\n", encoding="utf-8")
    truth.write_text("user,item\nanna,bob\nbob,carl\n", encoding="utf-8")
    assert read_truth(str(truth), 3, None, ids).edge_index.tolist() == [[0, 1], [1, 2]]
    truth.write_text("anna,bobb\nbob,carl\n", encoding="utf-8")
    with pytest.raises(InputError, match="'bobb'"):
        read_truth(str(truth), 3, None, ids)
    truth.write_text("u,v\n0,1\n", encoding="utf-8")
    assert read_truth(str(truth), 3, None).num_edges == 1


def test_truth_is_read_as_own_files_are(tmp_path: Path) -> None:
    """Semicolons, quotes, a BOM, named columns; names in the order of the release; what is missing is named."""
    truth, names = tmp_path / "truth.csv", ["carl", "anna", "bob"]
    truth.write_text('\ufeffedge;from;to\n7;"anna";bob\n8;bob;carl\n', encoding="utf-8")
    columns = {"source": "from", "target": "to"}
    assert read_truth(str(truth), 3, None, names=names, columns=columns).edge_index.tolist() == [[0, 1], [2, 2]]
    with pytest.raises(InputError, match="'bob', which the model does not list"):
        read_truth(str(truth), 2, None, names=names[:2], columns=columns)
    named = Graph.from_edges([[0], [1]], num_nodes=3, node_ids=np.array(["anna", "bob", "carl"]))
    assert in_order_of(named, names).edge_index.tolist() == [[1], [2]]


def test_column_options_are_those_of_every_command(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("when;who;whom\n1;a;b\n2;b;c\n", encoding="utf-8")
    (tmp_path / "nodes.csv").write_text("row;name\n1;a\n2;b\n3;c\n", encoding="utf-8")
    args = ["--edges", str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv"), "--defence", "lapgraph",
            "--epsilon", "50", "--source", "who", "--target", "whom", "--id-column", "name", "--delimiter", ";"]  # fmt: skip
    assert exported(tmp_path, args, "out").node_ids.tolist() == ["a", "b", "c"]
