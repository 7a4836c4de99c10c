"""LPGNet end to end: budget, settings, stored vectors, what is released, and what is refused."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import weakref
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences.lpgnet import lpgnet_stack
from edgeveil.defences.lpgnet.lpgnet import LPGNet
from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.cluster_degrees import cluster_degrees
from edgeveil.models import ModelSpec, TrainSpec, preset
from edgeveil.privacy.guarantee import SECURE
from edgeveil.privacy.verify import Effort, verify
from edgeveil.release.lpgnet_predictor import row_logits

QUICK: dict[str, Any] = {
    "model": ModelSpec(name="mlp", hidden=8, bias=False),
    "train": TrainSpec(epochs=30, lr=0.05, schedule="linear", keep="best-val-loss"),
}


def community_graph(n: int = 120, classes: int = 3, seed: int = 0, name: str = "graph") -> ev.Graph:
    """Clear communities, weak features: edges help."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    u, v = np.triu_indices(n, 1)
    keep = rng.random(len(u)) < np.where(y[u] == y[v], 0.25, 0.01)
    x = (rng.random((n, 18)) < 0.15 + 0.2 * (np.arange(18) % classes == y[:, None])).astype(np.float32)
    order = rng.permutation(n)
    part = [np.isin(np.arange(n), order[a:b]) for a, b in ((0, 40), (40, 80), (80, n))]
    return ev.Graph.from_edges(
        np.stack([u[keep], v[keep]]), x=x, y=y, train_mask=part[0], val_mask=part[1], test_mask=part[2], name=name
    )


@pytest.fixture(scope="module")
def graph() -> ev.Graph:
    return community_graph()


def defend(
    graph: ev.Graph, name: str = "lpgnet-2", epsilon: float = 4.0, seed: int | None = 0, **more: Any
) -> ev.Release:
    return ev.defend(graph, name, epsilon=epsilon, seed=seed, **{**QUICK, **more})


# -- names and parameters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 2, 3, 7])
def test_names_fix_the_number_of_extra_mlps(graph: ev.Graph, layers: int) -> None:
    release = defend(graph, f"lpgnet-{layers}")
    assert release.defence == f"lpgnet-{layers}" and len(release.predictor.models) == layers + 1  # type: ignore[attr-defined]


def test_any_number_of_layers_is_a_parameter(graph: ev.Graph) -> None:
    release = defend(graph, "lpgnet", layers=6)
    assert (release.defence, release.params["layers"]) == ("lpgnet-6", 6)
    assert [c.epsilon for c in release.guarantee.charges] == [Fraction(4, 6)] * 6


@pytest.mark.parametrize(
    "params",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"layers": 0},
        {"layers": 1.5},
        {"layers": True},
        {"layers": "2"},
        {"clip": "no"},
        {"clip": 0},
        {"noise": "gauss"},
        {"readout": "vote"},
        {"variant": "fixed"},
        {"variant": "published", "noise": "discrete"},
        {"variant": "published", "clip": False},
    ],
)
def test_nonsense_parameters_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        LPGNet(**{"epsilon": 1.0, **params})


def test_numbers_of_numpy_are_taken_as_plain_ones() -> None:
    defence = LPGNet(epsilon=1.0, layers=np.int64(2), clip=np.bool_(False))  # type: ignore[arg-type]
    assert type(defence.layers) is int and defence.clip is False
    assert defence == LPGNet(epsilon=1.0, layers=2, clip=False)


def test_a_missing_epsilon_is_refused(graph: ev.Graph) -> None:
    with pytest.raises(InputError, match="epsilon"):
        ev.defend(graph, "lpgnet-1", seed=0)
    with pytest.raises(UnknownNameError):
        ev.defend(graph, "lpgnet-1", epsilon=1.0, depth=3)


# -- budget (App. A, Table 3) -------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.7, 4.0])
def test_transductive_queries_cost_epsilon_over_layers(graph: ev.Graph, layers: int, epsilon: float) -> None:
    guarantee = defend(graph, f"lpgnet-{layers}", epsilon).guarantee
    assert [c.epsilon for c in guarantee.charges] == [Fraction(str(epsilon)) / layers] * layers
    assert {c.on for c in guarantee.charges} == {"graph"}
    assert (guarantee.status, guarantee.epsilon) == ("sound", epsilon)
    assert sum(c.epsilon for c in guarantee.charges) == Fraction(str(epsilon))


def test_two_different_graphs_pay_in_parallel(graph: ev.Graph) -> None:
    release = defend(graph, inference_graph=community_graph(70, seed=9), setting="inductive-different")
    charges = release.guarantee.charges
    for on in ("training graph", "inference graph"):
        assert [c.epsilon for c in charges if c.on == on] == [2, 2]
    assert release.setting == "inductive-different" and release.guarantee.epsilon == 4.0
    assert release.predict().shape == (70, 3) and len(charges) == 4


def test_an_evolving_graph_pays_in_thirds(graph: ev.Graph) -> None:
    charges = defend(graph, setting="inductive-evolving").guarantee.charges
    assert [c.epsilon for c in charges] == [Fraction(4, 6)] * 6 and {c.on for c in charges} == {"graph"}
    named = {
        phase: sum(c.epsilon for c in charges if phase in c.what) for phase in ("training", "validation", "inference")
    }
    assert named == dict.fromkeys(named, Fraction(4, 3))


def test_the_statement_lists_every_query(graph: ev.Graph) -> None:
    said = defend(graph, setting="inductive-evolving").guarantee.statement()
    for phase in ("training", "validation", "inference"):
        for layer in (1, 2):
            assert f"cluster-degree vectors, {phase}, layer {layer}" in said


# -- what the three settings look at ------------------------------------------------------------------------------


def test_without_noise_the_stored_vectors_are_the_counts_of_predicted_clusters(graph: ev.Graph) -> None:
    release = defend(graph, "lpgnet-2", math.inf)
    first, second, _ = release.predictor.models  # type: ignore[attr-defined]
    x0, x1 = release.predictor.vectors  # type: ignore[attr-defined]
    logits = row_logits(first, release.matrix)
    assert np.array_equal(x0, cluster_degrees(graph, logits.argmax(1), 3))
    features = np.concatenate([logits, x0], axis=1)  # F_1 = L_0 ^ X_0
    logits = row_logits(second, ev_matrix(features))
    assert np.array_equal(x1, cluster_degrees(graph, logits.argmax(1), 3))
    last = row_logits(release.predictor.models[2], ev_matrix(np.concatenate([features, logits, x1], axis=1)))  # type: ignore[attr-defined]
    assert np.allclose(release.predict(), last)
    assert release.guarantee.status == "none" and release.guarantee.epsilon is None


def ev_matrix(x: np.ndarray) -> Any:
    from edgeveil.graph.features import FeatureMatrix

    return FeatureMatrix.wrap(x)


def test_an_evolving_release_stores_vectors_of_the_whole_graph_and_trains_on_less(graph: ev.Graph) -> None:
    release = defend(graph, "lpgnet-1", math.inf, setting="inductive-evolving")
    clusters = row_logits(release.predictor.models[0], release.matrix).argmax(1)  # type: ignore[attr-defined]
    assert np.array_equal(release.predictor.vectors[0], cluster_degrees(graph, clusters, 3))  # type: ignore[attr-defined]


def test_edges_help_where_features_are_weak(graph: ev.Graph) -> None:
    mlp = ev.defend(graph, "mlp", seed=0, **QUICK).utility("test")["accuracy"]
    assert defend(graph, "lpgnet-1", 8.0).utility("test")["accuracy"] > mlp + 0.05


def test_a_graph_without_masks_or_edges_still_trains() -> None:
    full = community_graph()
    bare = ev.Graph.from_edges(np.empty((2, 0), int), x=full.x, y=full.y)
    assert np.isfinite(defend(bare).predict()).all()


def test_multilabel_graphs_work_with_the_paper_read_out(graph: ev.Graph) -> None:
    y = np.stack([graph.y == 0, graph.y != 1, graph.y == 2], axis=1).astype(np.int64)
    multi = graph.with_labels(y)
    assert defend(multi).predict().shape == (120, 3)
    with pytest.raises(InputError, match="one class per node"):
        defend(multi, readout="bayes")


# -- what is released ---------------------------------------------------------------------------------------------


def test_answers_need_no_graph(graph: ev.Graph, tmp_path: Path) -> None:
    mine = community_graph(60, seed=3)
    release = defend(mine, scaling="none")
    before = release.predict()
    release.save(tmp_path / "release")
    gone = weakref.ref(mine)
    del mine, release
    gc.collect()
    assert gone() is None
    loaded = ev.Release.load(tmp_path / "release")
    assert np.array_equal(loaded.predict(), before) and loaded.evaluation is None
    x = loaded.predict(features=np.zeros((1, 18)), nodes=[4])
    assert np.array_equal(np.delete(x, 4, axis=0), np.delete(before, 4, axis=0))


@pytest.mark.slow
def test_a_release_loads_in_a_fresh_process_and_holds_no_edges(graph: ev.Graph, tmp_path: Path) -> None:
    path = defend(graph).save(tmp_path / "release")
    assert not (path / "private_graph.npz").exists()
    with np.load(path / "structure.npz") as stored:
        assert sorted(stored.files) == ["vectors0", "vectors1"] and stored["vectors0"].shape == (120, 3)
    code = f"import edgeveil as ev; print(ev.Release.load({str(path)!r}).predict().shape)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "(120, 3)"


def test_exact_counts_are_stored_as_private(graph: ev.Graph, tmp_path: Path) -> None:
    path = defend(graph, epsilon=math.inf).save(tmp_path / "release")
    assert (path / "private_graph.npz").stat().st_mode & 0o777 == 0o600


def test_vectors_whose_noise_cancels_are_stored_as_private(graph: ev.Graph, tmp_path: Path) -> None:
    release = defend(graph, variant="published")
    path = release.save(tmp_path / "release")
    assert release.contains_private_graph and any("noise, which cancels" in note for note in release.notes)
    assert (path / "private_graph.npz").stat().st_mode & 0o777 == 0o600 and not (path / "structure.npz").exists()
    assert not defend(graph).contains_private_graph and not defend(graph).notes


def test_another_graph_is_refused(graph: ev.Graph) -> None:
    release = defend(graph)
    with pytest.raises(InputError):
        release.predict(features=np.zeros((7, 18)))
    with pytest.raises(InputError, match="new release with its own epsilon"):
        release.predictor.logits(ev_matrix(np.zeros((7, 18))))


def test_only_the_last_logits_leave(graph: ev.Graph) -> None:
    assert defend(graph, "lpgnet-3").predict().shape == (120, 3)


def test_influence_is_exactly_zero_because_vectors_are_stored(graph: ev.Graph) -> None:
    release = defend(graph)
    assert release.influence([0, 1, 2]).nnz == 0
    moved = release.predict(features=np.asarray(release.matrix.rows([5])) * 3 + 1, nodes=[5])
    changed = np.flatnonzero((moved != release.predict()).any(axis=1))
    assert changed.tolist() == [5]


def test_induced_answers_reuse_the_stored_vectors(graph: ev.Graph) -> None:
    release = defend(graph)
    nodes = [3, 50, 7]
    assert np.allclose(release.predict(nodes=nodes, induced=True), release.predict(nodes=nodes))


# -- models, seeds, reuse -----------------------------------------------------------------------------------------


def test_a_gnn_is_ignored_with_a_notice_and_the_paper_settings_take_over(graph: ev.Graph) -> None:
    release = ev.defend(graph, "lpgnet-1", epsilon=4.0, model="gat", seed=0, train=QUICK["train"])
    assert any("'gat' is ignored" in note for note in release.notes)
    assert (release.model, release.predictor.spec.bias) == ("mlp", "none")  # type: ignore[attr-defined]


@pytest.mark.parametrize("train", [TrainSpec(epochs=3), TrainSpec(), TrainSpec(epochs=200, keep="best-val-loss")])
@pytest.mark.parametrize("model", ["gcn", "mlp"])
def test_the_callers_training_is_kept_whatever_it_equals(
    graph: ev.Graph, monkeypatch: pytest.MonkeyPatch, train: TrainSpec, model: str
) -> None:
    assert fitted_with(monkeypatch, graph, train=train, model=model) == [train, train]


def test_without_a_model_or_with_mlp_the_settings_are_lpgnets(graph: ev.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    own = preset("lpgnet", "graph", "mlp")
    for named in ({}, {"model": "mlp"}, {"model": "gat"}):
        assert fitted_with(monkeypatch, graph, **named) == [own.train, own.train]
        release = ev.defend(graph, "lpgnet-1", epsilon=4.0, seed=0, train=QUICK["train"], **named)
        assert release.predictor.spec == own.model  # type: ignore[attr-defined]
        assert any("is ignored" in note for note in release.notes) == (named == {"model": "gat"})


def fitted_with(monkeypatch: pytest.MonkeyPatch, graph: ev.Graph, **how: Any) -> list[TrainSpec]:
    """Training settings that reach `fit`, without training."""
    seen: list[TrainSpec] = []
    with monkeypatch.context() as patch:
        patch.setattr(lpgnet_stack, "fit", lambda *a, **k: seen.append(a[6]))
        lpgnet_stack.FIRST.clear()
        ev.defend(graph, "lpgnet-1", epsilon=4.0, seed=0, **how)
        lpgnet_stack.FIRST.clear()
    return seen


def test_same_seed_same_release_and_other_seed_another(graph: ev.Graph) -> None:
    a, b, c = (defend(graph, seed=s).predict() for s in (1, 1, 2))
    assert np.array_equal(a, b) and not np.array_equal(a, c)


def test_sweeps_over_epsilon_train_the_first_mlp_once(graph: ev.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    lpgnet_stack.FIRST.clear()
    trained: list[int] = []
    original = lpgnet_stack._train
    monkeypatch.setattr(lpgnet_stack, "_train", lambda *a: (trained.append(a[-1]), original(*a)))
    weights = [state(defend(graph, "lpgnet-1", e)) for e in (1.0, 2.0, 3.0)]
    assert trained == [0, 1, 1, 1] and all(np.array_equal(weights[0], w) for w in weights)
    other = graph.with_split("other", {"train": graph.val_mask, "val": graph.train_mask, "test": graph.test_mask})
    assert not np.array_equal(state(defend(other, "lpgnet-1", 1.0)), weights[0])
    lpgnet_stack.FIRST.clear()
    assert np.array_equal(state(defend(graph, "lpgnet-1", 2.0)), weights[0])


def state(release: ev.Release) -> np.ndarray:
    first = release.predictor.models[0]  # type: ignore[attr-defined]
    return np.concatenate([p.detach().numpy().ravel() for p in first.parameters()])


def test_a_real_release_uses_operating_system_entropy(graph: ev.Graph) -> None:
    a, b = defend(graph, seed=None), defend(graph, seed=None)
    assert a.guarantee.randomness == SECURE and "must not be published" not in a.guarantee.statement()
    assert not np.array_equal(a.predictor.vectors[0], b.predictor.vectors[0])  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="never private"):
        defend(graph, seed=None, noise="continuous")


# -- claims -------------------------------------------------------------------------------------------------------


def test_the_published_variant_has_no_guarantee(graph: ev.Graph) -> None:
    guarantee = defend(graph, variant="published").guarantee
    assert (guarantee.status, guarantee.epsilon, guarantee.claimed_epsilon) == ("refuted", None, 4.0)
    assert "repeats one block of noise" in guarantee.statement()


@pytest.mark.slow
@pytest.mark.parametrize("params", [{"epsilon": 4.0}, {"epsilon": 1.0, "layers": 1}])
def test_the_verifier_finds_the_correct_variant_consistent(params: dict[str, Any]) -> None:
    found = verify(LPGNet(**params), Effort(runs=1000, canaries=20_000))
    assert found.verdict == "consistent" and found.lower_bound > 0.5 * params["epsilon"]


@pytest.mark.slow
def test_the_verifier_refutes_floating_point_noise_by_its_last_bits() -> None:
    """Continuous noise is for seeded experiments only, and this is why."""
    found = verify(LPGNet(epsilon=2.0, noise="continuous"), Effort(runs=50, canaries=20_000))
    best = max(found.findings, key=lambda f: f.lower_bound)
    assert found.verdict == "refuted" and "last bits" in best.detail


def test_the_verifier_refutes_the_published_variant() -> None:
    found = verify(LPGNet(epsilon=2.0, variant="published"), Effort(runs=100, canaries=5_000))
    assert found.verdict == "refuted"


@pytest.mark.slow
def test_the_verifier_refutes_half_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgeveil.defences.lpgnet.lpgnet.noise_scale", lambda e: Fraction(1) / e)
    assert verify(LPGNet(epsilon=2.0), Effort(runs=100, canaries=10_000)).verdict == "refuted"
