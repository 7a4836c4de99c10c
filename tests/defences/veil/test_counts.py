"""Noisy counts on the edge-free base: what is charged, what is read, what is kept, and that edges enter nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences.job import make_job
from edgeveil.defences.lpgnet.lpgnet_stack import make_phases
from edgeveil.defences.renew import renew
from edgeveil.defences.veil import read_outs
from edgeveil.defences.veil.counts import VeilCounts
from edgeveil.defences.veil.read_outs import KEPT, Reading
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.models.settings import TrainSpec
from edgeveil.models.spec import ModelSpec
from zoo import toy


def blocks(seed: int = 0, homophily: float = 0.95, masks: bool = True) -> Graph:
    """400 nodes whose features tell little and whose neighbours tell nearly all."""
    rng = np.random.default_rng(seed)
    n = 400
    y = np.arange(n) % 2
    x = (rng.random((n, 20)) < 0.3 + 0.08 * (np.arange(20) % 2 == y[:, None])).astype(np.float32)
    u = rng.integers(n, size=3000)
    v = (u + 2 * rng.integers(n // 2, size=3000) + (rng.random(3000) > homophily)) % n
    order = rng.permutation(n)
    parts = {f"{k}_mask": np.isin(np.arange(n), order[a:b]) for k, a, b in _PARTS} if masks else {}
    return Graph.from_edges(np.stack([u, v]), x=x, y=y, **parts)


SHORT = TrainSpec(epochs=20)  # where nothing is said of how good the model is
_PARTS = (("train", 0, 100), ("val", 100, 250), ("test", 250, 400))


def test_neighbours_that_tell_the_class_are_used() -> None:
    graph = blocks()
    counted, free = ev.defend(graph, "veil-counts", epsilon=4.0, seed=0), ev.defend(graph, "feature-graph", seed=0)
    assert counted.utility("test")["accuracy"] > free.utility("test")["accuracy"] + 0.1
    assert counted.guarantee.status == "sound" and counted.guarantee.epsilon == 4.0
    assert [float(c.epsilon) for c in counted.guarantee.charges] == [4.0]


@pytest.mark.usefixtures("short_read_outs")
def test_an_own_graph_called_like_a_dataset_is_not_read_with_its_settings() -> None:
    graph = blocks()
    fields = {f"{part}_mask": getattr(graph.masks, part) for part in ("train", "val", "test")}
    named = [
        Graph.from_edges(graph.edge_index, x=graph.x, y=graph.y, name=name, **fields) for name in ("own", "flickr")
    ]
    made = [ev.defend(g, "veil-counts", epsilon=8.0, seed=0, train=SHORT) for g in named]
    assert "read by" in made[0].notes[-1]
    np.testing.assert_array_equal(made[0].predict(), made[1].predict())


@pytest.mark.usefixtures("short_read_outs")
def test_readings_that_beat_nothing_leave_the_base_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgeveil.defences.veil.read_outs.is_better", lambda *_: False)
    graph = blocks()
    counted = ev.defend(graph, "veil-counts", epsilon=1.0, seed=0, train=SHORT)
    free = ev.defend(graph, "feature-graph", seed=0, train=SHORT)
    assert counted.notes[-1] == KEPT and counted.guarantee.epsilon == 1.0
    np.testing.assert_array_equal(counted.predict(), free.predict())


@pytest.mark.usefixtures("short_read_outs")
def test_the_clusters_come_from_public_data_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = blocks()
    other = graph.with_edges(np.random.default_rng(5).integers(400, size=(2, 900)))
    seen: list[np.ndarray] = []

    def stage(self, job, phases, learn):  # type: ignore[no-untyped-def]
        seen.append(phases[0].clusters)
        return original(self, job, phases, learn)

    original = VeilCounts.noise_stage
    monkeypatch.setattr(VeilCounts, "noise_stage", stage)
    for g in (graph, other):
        ev.defend(g, "veil-counts", epsilon=2.0, seed=0, train=SHORT)
    np.testing.assert_array_equal(seen[0], seen[1])
    assert graph.masks is not None and graph.y is not None
    np.testing.assert_array_equal(seen[0][graph.masks.train], graph.y[graph.masks.train])


def test_the_noise_has_scale_two_over_epsilon() -> None:
    """Mean absolute noise of 6,000 counts; sd of the mean is below 1.5 %, so five of them never fail in practice."""
    empty = Graph.from_edges(np.empty((2, 0), np.int64), x=np.ones((3000, 1)), y=np.arange(3000) % 2)
    job = make_job(empty, None, None, model=ModelSpec(), train=TrainSpec(), scaling="none", seed=3)
    phases = make_phases(job)
    phases[0].logits = np.zeros((3000, 2))
    VeilCounts(epsilon=0.5).noise_stage(job, phases, lambda layer: None)
    q = np.exp(-0.5 / 2)
    assert np.abs(phases[0].vectors[0]).mean() == pytest.approx(2 * q / (1 - q**2), rel=0.08)


@pytest.mark.usefixtures("short_read_outs")
def test_without_validation_nodes_a_share_of_the_training_nodes_judges() -> None:
    release = ev.defend(blocks(masks=False), "veil-counts", epsilon=8.0, seed=0, train=SHORT)
    assert "best of" in release.notes[-1]


@pytest.mark.slow
@pytest.mark.parametrize("setting,total", [("inductive-different", 3.0), (None, 6.0)])
def test_two_graphs_state_their_sum_unless_asserted_apart(setting: str | None, total: float) -> None:
    release = ev.defend(
        blocks(0), "veil-counts", epsilon=3.0, seed=0, inference_graph=blocks(1), setting=setting
    )  # fmt: skip
    assert release.guarantee.epsilon == total and release.utility("test")["accuracy"] > 0.7


@pytest.mark.slow
def test_a_graph_unlike_the_one_that_judged_is_answered_by_the_base() -> None:
    """The graph that answers has no edges, so a reading learnt with edges does not move its nodes as it should."""
    other = blocks(1).with_edges(np.empty((2, 0), np.int64))
    counted, free = (
        ev.defend(blocks(0), name, seed=0, inference_graph=other, setting="inductive-different", **how)
        for name, how in (("veil-counts", {"epsilon": 8.0}), ("feature-graph", {}))
    )
    assert counted.notes[-1] == KEPT and counted.guarantee.epsilon == 8.0
    np.testing.assert_array_equal(counted.predict(), free.predict())


@pytest.mark.usefixtures("short_read_outs")
def test_saved_releases_answer_alike(tmp_path: Path) -> None:
    for graph, epsilon in ((blocks(), 8.0), (toy(), 1.0)):
        release = ev.defend(graph, "veil-counts", epsilon=epsilon, seed=1, train=SHORT)
        release.save(tmp_path / f"r{epsilon}")
        np.testing.assert_array_equal(ev.Release.load(tmp_path / f"r{epsilon}").predict(), release.predict())


def test_bad_epsilon_is_refused() -> None:
    with pytest.raises(InputError, match="epsilon"):
        VeilCounts(epsilon=float("inf"))


def test_renewal_asks_the_new_graph_once_and_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        read_outs, "_bayes", lambda job, phases, base, noise: Reading("bayes", 0 * phases[1].logits, base)
    )
    release = ev.defend(blocks(0), "veil-counts", epsilon=4.0, seed=0)
    other = blocks(1).with_features(release.matrix.values)
    renewed = renew(release, other, epsilon=6.0, seed=1)
    assert renewed.guarantee.epsilon == 10.0 and len(renewed.guarantee.charges) == 2
    base = renewed.predictor.base.logits(release.matrix)  # type: ignore[attr-defined]
    right, before = ((p.argmax(axis=1) == other.y).mean() for p in (renewed.predict(), base))
    assert right > before + 0.05
    (law,) = renewed.stored_counts
    assert (law.law, law.scale, law.clipped) == ("discrete", 2 / 6, False), "the attack on counts knows it"


def test_a_bayesian_reading_is_not_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_outs, "FORMS", ())
    release = ev.defend(blocks(0), "veil-counts", epsilon=8.0, seed=0, train=SHORT)
    with pytest.raises(InputError, match="Bayes"):
        renew(release, blocks(1).with_features(release.matrix.values), seed=1)
