"""Releases of graphs whose edges stay in files: the same mechanism, one noisy answer, one charge, killed or not."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from edgeveil.defences.stored.defend_stored import defend_stored
from edgeveil.defences.stored.journal import open_journal
from edgeveil.errors import BudgetExceeded, GraphError, InputError, StorageError, UsageError
from edgeveil.graph.cluster_degrees import cluster_degrees
from edgeveil.graph.splits import apply_split
from edgeveil.graph.stored.graph_in_files import StoredGraph, open_graph
from edgeveil.graph.stored.heavy_tailed import HeavyTailed
from edgeveil.models.settings import TrainSpec
from edgeveil.privacy.ledger import open_ledger
from edgeveil.privacy.ledger.units import to_units
from edgeveil.release.release import Release
from forked import Child

FEW = TrainSpec(epochs=3, batch_size=256, keep="best-val-loss")
SIZE = {"nodes": 600, "edges": 5000, "features": 6, "classes": 3}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    HeavyTailed(**SIZE, signal=0.8).write(tmp_path)  # type: ignore[arg-type]
    return tmp_path


@contextmanager
def opened(folder: Path) -> Iterator[StoredGraph]:
    with open_graph(
        folder / "edges",
        folder / "nodes.parquet",
        folder / "labels.parquet",
        name="graph",
        work=folder / "work",
        threads=1,
    ) as graph:
        yield graph.with_nodes(apply_split(graph.nodes, "50:25:25", 0))


def charges(folder: Path) -> list[dict[str, Any]]:
    with open_ledger(str(folder / "ledger.sqlite")) as ledger:
        return ledger.charges()


@pytest.mark.parametrize("name", ["lpgnet-1", "lpgnet-2", "veil-counts", "mlp"])
def test_a_release_answers_without_edges_and_states_its_epsilon(folder: Path, name: str) -> None:
    given = {} if name == "mlp" else {"epsilon": 8.0}
    with opened(folder) as graph, defend_stored(graph, name, train=FEW, **given) as made:  # type: ignore[arg-type]
        made.save(folder / "release")
        score, answers = made.utility("test")["accuracy"], made.predict(nodes=[0, 5])
    assert score > 0.5
    for file in (folder / "edges").iterdir():
        file.unlink()
    loaded = Release.load(folder / "release")
    np.testing.assert_allclose(loaded.predict(nodes=[0, 5]), answers)
    assert loaded.guarantee.status == "sound" and loaded.guarantee.claimed_epsilon == given.get("epsilon", 0.0)
    assert not loaded.contains_private_graph
    assert sorted(p.name for p in (folder / "release").iterdir()) == [
        "features.npz", "manifest.json", "structure.npz", "weights.npz",
    ]  # fmt: skip


def test_counts_carry_discrete_laplace_noise_of_the_stated_scale(folder: Path) -> None:
    """Noisy counts less the exact ones are discrete Laplace of scale 2 layers/epsilon; false alarm 1 in 10^4."""
    from edgeveil.defences.lpgnet.lpgnet import LPGNet

    method = LPGNet(epsilon=1.0, layers=1, clip=False)
    with opened(folder) as graph, defend_stored(graph, method, train=FEW) as made:
        (stored,) = made.predictor.stored_counts(made.matrix)  # type: ignore[attr-defined]
        noise = np.asarray(stored.counts) - cluster_degrees(graph.to_graph(), stored.clusters, 3)
    assert stored.scale == 2.0
    assert np.all(noise == np.rint(noise))
    law, edges = stats.dlaplace(0.5), np.arange(-6, 7)
    seen = np.histogram(np.clip(noise.ravel(), -6, 6), np.append(edges, 7))[0]
    chance = law.pmf(edges)
    chance[[0, -1]] = law.cdf(-6)
    assert stats.chisquare(seen, chance / chance.sum() * noise.size).pvalue > 1e-4


def test_seeded_runs_repeat_and_say_that_they_are_not_private(folder: Path) -> None:
    answers = []
    for turn in range(2):
        with (
            open_graph(folder / "edges", folder / "nodes.parquet", folder / "labels.parquet", name="graph", work=folder / f"w{turn}", threads=1) as graph,
            defend_stored(graph.with_nodes(apply_split(graph.nodes, "50:25:25", 0)), "lpgnet-2", epsilon=2.0, train=FEW, seed=7) as made,
        ):  # fmt: skip
            answers.append(made.predict())
            assert made.guarantee.randomness == "seeded: reproducible, not private"
    np.testing.assert_array_equal(*answers)


def test_two_real_releases_have_noise_of_their_own(folder: Path) -> None:
    found = []
    for turn in range(2):
        with (
            open_graph(
                folder / "edges",
                folder / "nodes.parquet",
                folder / "labels.parquet",
                work=folder / f"w{turn}",
                threads=1,
            ) as graph,
            defend_stored(graph, "lpgnet-1", epsilon=2.0, train=FEW) as made,
        ):
            found.append(np.array(made.predictor.vectors[0]))  # type: ignore[attr-defined]
    assert not np.array_equal(*found)


def test_methods_that_need_all_edges_say_what_to_use(folder: Path) -> None:
    with opened(folder) as graph:
        for name in ("lapgraph", "none", "edgerand"):
            given = {} if name == "none" else {"epsilon": 4.0}
            with (
                pytest.raises(InputError, match="lpgnet-1, lpgnet-2, veil-counts"),
                defend_stored(graph, name, **given),  # type: ignore[arg-type]
            ):
                pass


def test_a_full_ledger_refuses_before_any_question(folder: Path) -> None:
    with open_ledger(str(folder / "ledger.sqlite")) as ledger:
        ledger.open_account("edges:graph", "epsilon", 1.0)
    with (
        opened(folder) as graph,
        pytest.raises(BudgetExceeded, match="cap 1"),
        defend_stored(graph, "lpgnet-1", epsilon=2.0, train=FEW, ledger=str(folder / "ledger.sqlite")),
    ):
        pass
    assert not list((folder / "work").rglob("counts-*"))
    assert charges(folder) == []


def test_rows_that_cannot_be_read_cost_nothing(folder: Path) -> None:
    x = np.zeros((SIZE["nodes"], 2), np.float32)
    x[599, 1] = np.inf
    np.save(folder / "x.npy", x)
    with (
        open_graph(folder / "edges", folder / "x.npy", folder / "labels.parquet", work=folder / "work", threads=1) as graph,
        pytest.raises(GraphError, match="feature 1 of node 599 is inf; fill it in"),
        defend_stored(graph, "lpgnet-1", epsilon=2.0, train=FEW, ledger=str(folder / "ledger.sqlite")),
    ):  # fmt: skip
        pass
    assert not (folder / "ledger.sqlite").exists() or charges(folder) == []


def test_the_same_release_again_costs_nothing_and_another_costs_its_own(folder: Path) -> None:
    kept = []
    for epsilon in (2.0, 2.0, 3.0):
        with (
            opened(folder) as graph,
            defend_stored(graph, "lpgnet-1", epsilon=epsilon, train=FEW, ledger=str(folder / "ledger.sqlite")) as made,
        ):
            kept.append(np.array(made.predictor.vectors[0]))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(kept[0], kept[1])
    assert not np.array_equal(kept[0], kept[2])
    assert len(charges(folder)) == 2


def test_other_features_are_another_release(folder: Path) -> None:
    """Models of earlier features are not taken for new ones."""
    for seed in (0, 1):
        HeavyTailed(**SIZE, signal=0.8, seed=seed).write(folder / "other")  # type: ignore[arg-type]
        (folder / "other" / "nodes.parquet").replace(folder / "nodes.parquet")
        with opened(folder) as graph, defend_stored(graph, "mlp", train=FEW, seed=3):
            pass
    assert len(list((folder / "work").glob("release-*"))) == 2


def test_an_answer_is_never_replaced_by_one_to_another_question(tmp_path: Path) -> None:
    rows = [np.ones((3, 2))]
    with open_journal(tmp_path, {"release": 1}) as journal:
        journal.answer("counts", np.array([0, 1, 0]), (3, 2), lambda: iter(rows))
        with pytest.raises(StorageError, match="nothing is asked again"):
            journal.answer("counts", np.array([1, 1, 0]), (3, 2), lambda: iter(rows))
        with pytest.raises(UsageError, match="another process"), open_journal(tmp_path, {"release": 1}):
            pass


def test_an_answer_that_breaks_off_is_not_kept(tmp_path: Path) -> None:
    def broken() -> Iterator[Any]:
        yield np.ones((1, 2))
        raise RuntimeError("worker lost")

    with open_journal(tmp_path, {}) as journal:
        with pytest.raises(RuntimeError, match="worker lost"):
            journal.answer("counts", np.zeros(3), (3, 2), broken)
        assert not (journal.folder / "counts.npy").exists()
        answer = journal.answer("counts", np.zeros(3), (3, 2), lambda: iter([np.full((3, 2), 4.0)]))
        again = journal.answer("counts", np.zeros(3), (3, 2), broken)
    assert (answer == 4).all() and (again == 4).all()


def noisy_answers(folder: Path) -> dict[str, str]:
    """Every committed noisy answer."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in (folder / "work").rglob("counts-*.npy")}


@pytest.mark.slow
def test_killed_at_any_point_there_is_one_noisy_answer_and_one_charge(folder: Path) -> None:
    """The process is killed (SIGKILL) again and again, ever later, until it gets through."""
    rng, seen, kills = np.random.default_rng(0), {}, 0
    script = Path(__file__).with_name("made.py")
    for attempt in range(60):
        process = Child(script, folder, "duckdb", cwd=folder, out=folder / "said.txt")
        try:
            process.wait(float(rng.uniform(0.05, 0.3)) * (1 + attempt / 4) ** 1.3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)
            kills += 1
        for name, digest in noisy_answers(folder).items():
            assert seen.setdefault(name, digest) == digest, f"{name} was answered twice"
        if (folder / "ledger.sqlite").exists() and seen:
            assert len(charges(folder)) == 1
        if (folder / "release" / "manifest.json").exists():
            break
    assert kills >= 3 and set(seen) == {"counts-1.npy", "counts-2.npy"}
    (charge,) = charges(folder)
    assert charge["amount"] == to_units(2.0) and charge["status"] == "done"
    release = Release.load(folder / "release")
    for number, vectors in enumerate(release.predictor.vectors, start=1):  # type: ignore[attr-defined]
        (file,) = (folder / "work").rglob(f"counts-{number}.npy")
        np.testing.assert_array_equal(vectors, np.load(file))
