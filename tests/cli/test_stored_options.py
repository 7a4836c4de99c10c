"""Folders of parquet files on the command line: small ones are loaded, larger ones stay where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from command import edgeveil
from edgeveil.defences.stored.defend_stored import defend_stored
from edgeveil.graph.files.read_graph import read_graph
from edgeveil.graph.stored.graph_in_files import open_graph
from edgeveil.graph.stored.heavy_tailed import HeavyTailed
from edgeveil.models.settings import TrainSpec
from edgeveil.privacy.ledger import open_ledger
from edgeveil.release.release import Release

pytestmark = pytest.mark.usefixtures("sketched", "trained_briefly")
FEW = TrainSpec(epochs=2, batch_size=256, keep="best-val-loss")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    HeavyTailed(nodes=800, edges=8000, features=6, classes=3, signal=0.8).write(folder)
    return folder


def test_a_small_folder_is_an_ordinary_graph(folder: Path) -> None:
    loaded = read_graph(folder / "edges", folder / "nodes.parquet", folder / "labels.parquet")
    with open_graph(folder / "edges", folder / "nodes.parquet", folder / "labels.parquet", threads=1) as stored:
        assert loaded.edge_index.tolist() == stored.edge_index.tolist()
        assert loaded.public_nodes


def words(folder: Path) -> list[object]:
    return ["--edges", folder / "edges", "--features", folder / "nodes.parquet", "--labels", folder / "labels.parquet"]


def test_edges_beyond_the_limit_stay_in_files(folder: Path, tmp_path: Path) -> None:
    small = edgeveil("inspect", *words(folder), cwd=tmp_path)
    large = edgeveil("inspect", *words(folder), "--in-memory", 100, cwd=tmp_path)
    assert small.returncode == large.returncode == 0, large.stderr
    assert "stay in files" not in small.stderr and "8,000 rows stay in files" in large.stderr
    facts = {line.partition(":")[0]: line for line in large.stdout.splitlines()}
    same = {line.partition(":")[0]: line for line in small.stdout.splitlines()}
    assert facts["homophily"] == same["homophily"]
    assert facts["edges"].split()[1] == same["edges"].split()[1].rstrip(",")


def test_a_release_and_its_audit_from_files(folder: Path, tmp_path: Path) -> None:
    options = [*words(folder), "--in-memory", 100]
    ledger = tmp_path / "ledger.sqlite"
    made = edgeveil(
        "release", *options, "--defence", "lpgnet-1", "--epsilon", 4, "--out", "made", "--ledger", ledger, cwd=tmp_path
    )
    assert made.returncode == 0, made.stderr
    assert not (tmp_path / ".made-work").exists()
    release = Release.load(tmp_path / "made")
    assert release.num_nodes == 800 and release.guarantee.claimed_epsilon == 4
    with open_ledger(str(ledger)) as opened:
        assert [charge["what"] for charge in opened.charges()] == ["release lpgnet-1"]
    audit = edgeveil(
        "audit", *options, "--release", "made", "--nodes", 100, "--attack", "lsa2-post", "--coins", 0, "--out", "audit",
        cwd=tmp_path,
    )  # fmt: skip
    assert audit.returncode == 0, audit.stderr
    assert "a sample of 100 of 800 nodes" in audit.stderr
    again = edgeveil("release", *options, "--defence", "lpgnet-1", "--epsilon", 4, "--out", "made", cwd=tmp_path)
    assert again.returncode == 2 and "already holds a release" in again.stderr


def test_what_needs_all_edges_is_refused_in_one_sentence(folder: Path, tmp_path: Path) -> None:
    options = [*words(folder), "--in-memory", 100]
    for more, said in (
        (["--defence", "lapgraph"], "needs all edges in memory"),
        (["--defence", "lpgnet-1", "--setting", "transductive"], "--setting needs all edges"),
        (["--defence", "lpgnet-1", "--engine", "sqlite"], "unknown engine"),
        (["--defence", "lpgnet-1", "--header"], "--header"),
    ):
        done = edgeveil("release", *options, *more, "--epsilon", 4, cwd=tmp_path)
        assert done.returncode == 2 and said in done.stderr, done.stderr
        if "needs all edges" in said:  # found before a private copy of the edges is made
            assert not (tmp_path / ".release-work").exists()
    none = edgeveil("release", *options, "--defence", "lpgnet-1", cwd=tmp_path)
    assert none.returncode == 2 and "epsilon" in none.stderr and "from 'src'" not in none.stderr, none.stderr
    lost = edgeveil("inspect", "--edges", "memory://nowhere", "--features", folder / "nodes.parquet", cwd=tmp_path)
    assert lost.returncode == 2 and "no parquet file at memory://nowhere" in lost.stderr


def test_an_audit_of_defences_takes_a_sample_that_holds_edges(folder: Path) -> None:
    from edgeveil.audits.stored_audit import part_of_release, sampled_graph

    with open_graph(folder / "edges", folder / "nodes.parquet", folder / "labels.parquet", threads=1) as stored:
        nodes, part = sampled_graph(stored, 200, seed=1)
        whole = stored.to_graph()
        assert len(nodes) == part.num_nodes == 200 and part.num_edges > 200
        assert part.edge_index.tolist() == whole.subgraph(nodes).edge_index.tolist()
        assert (part.x == whole.x[nodes]).all() and part.y is not None and (part.y == whole.y[nodes]).all()  # type: ignore[index]
        with defend_stored(stored, "lpgnet-1", epsilon=4.0, train=FEW) as made:
            answers = part_of_release(made, nodes).predict()
            np.testing.assert_allclose(answers, made.predict()[nodes])
