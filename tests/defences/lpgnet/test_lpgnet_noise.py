"""What a real LPGNet release asks: which edges, at what cost, with which noise, in every setting and phase."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences.job import make_job
from edgeveil.defences.lpgnet import bayes_readout, lpgnet_stack
from edgeveil.defences.lpgnet.lpgnet import LPGNet
from edgeveil.graph.cluster_degrees import cluster_degrees
from edgeveil.models import ModelSpec, TrainSpec
from zoo import scattered

QUICK: dict[str, Any] = {
    "model": ModelSpec(name="mlp", hidden=4, bias=False),
    "train": TrainSpec(epochs=2, lr=0.05, keep="last"),
    "scaling": "none",
    "seed": 0,
}
SETTINGS = ("transductive", "inductive-different", "inductive-evolving")
ASKED = {
    "transductive": ("training",),
    "inductive-different": ("training", "inference"),
    "inductive-evolving": ("training", "validation", "inference"),
}


def defend(graph: ev.Graph, setting: str, epsilon: float = 4.0, **more: Any) -> ev.Release:
    if setting == "inductive-different":
        more["inference_graph"] = scattered(graph.num_nodes + 30, graph.num_edges, seed=7)
    return ev.defend(graph, "lpgnet", epsilon=epsilon, setting=setting, **{**QUICK, **more})


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_query_has_its_own_stream_and_the_noise_it_was_charged_for(
    monkeypatch: pytest.MonkeyPatch, setting: str, layers: int
) -> None:
    asked: list[tuple[Fraction, int]] = []
    original = LPGNet.perturb_counts
    monkeypatch.setattr(
        LPGNet, "perturb_counts", lambda self, c, e, s: (asked.append((e, s)), original(self, c, e, s))[1]
    )
    release = defend(scattered(60, 150), setting, layers=layers)
    charges = [charge.epsilon for charge in release.guarantee.charges]
    assert [epsilon for epsilon, _ in asked] == charges and len(asked) == layers * len(ASKED[setting])
    assert len({seed for _, seed in asked}) == len(asked)


@pytest.mark.parametrize("noise", ["discrete", "continuous"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_vectors_of_an_edgeless_graph_are_noise_of_the_documented_scale(
    monkeypatch: pytest.MonkeyPatch, setting: str, noise: str
) -> None:
    seen: dict[tuple[str, int], np.ndarray] = {}
    original = lpgnet_stack.Phase.append

    def append(phase: lpgnet_stack.Phase, vectors: np.ndarray) -> None:
        original(phase, vectors)
        seen[phase.name, len(phase.vectors)] = vectors

    monkeypatch.setattr(lpgnet_stack.Phase, "append", append)
    release = defend(scattered(3000, 0), setting, 2.0, layers=2, clip=False, noise=noise)
    assert set(seen) == {(phase, layer) for phase in ASKED[setting] for layer in (1, 2)}
    scale = {"inductive-evolving": 6 * 2 / 2.0}.get(setting, 2 * 2 / 2.0)
    q = math.exp(-1 / scale)
    mean, square = (2 * q / (1 - q * q), 2 * q / (1 - q) ** 2) if noise == "discrete" else (scale, 2 * scale**2)
    for vectors in seen.values():
        slack = 5 * math.sqrt((square - mean**2) / vectors.size)
        assert abs(np.abs(vectors).mean() - mean) < slack
    blocks = [vectors[:3000] for vectors in seen.values()]
    repeats = [(a == b).mean() for i, a in enumerate(blocks) for b in blocks[:i]]
    assert max(repeats) < (1.5 / (2 * scale) if noise == "discrete" else 1e-9)
    assert all(np.array_equal(v, seen[ASKED[setting][-1], i]) for i, v in enumerate(stored(release), start=1))


def stored(release: ev.Release) -> list[np.ndarray]:
    return list(release.predictor.vectors)  # type: ignore[attr-defined]


# -- the evolving setting -----------------------------------------------------------------------------------------


def among(graph: ev.Graph, nodes: np.ndarray) -> ev.Graph:
    u, v = graph.edge_index
    return graph.with_edges(graph.edge_index[:, nodes[u] & nodes[v]])


def parts(graph: ev.Graph) -> dict[str, ev.Graph]:
    assert graph.train_mask is not None and graph.val_mask is not None
    return {
        "training": among(graph, graph.train_mask),
        "validation": among(graph, graph.train_mask | graph.val_mask),
        "inference": graph,
    }


def test_evolving_phases_see_the_edges_known_at_their_time() -> None:
    graph = scattered(90, 400)
    job = make_job(graph, None, "inductive-evolving", **QUICK)
    phases = lpgnet_stack.make_phases(job)
    expected = parts(graph)
    assert [phase.name for phase in phases] == list(expected)
    for phase in phases:
        assert np.array_equal(phase.graph.edge_ranks, expected[phase.name].edge_ranks)
    assert len({phase.graph.num_edges for phase in phases}) == 3


def test_an_mlp_trains_on_training_counts_and_is_judged_on_validation_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[np.ndarray] = []
    original = lpgnet_stack.fit
    lpgnet_stack.FIRST.clear()
    monkeypatch.setattr(
        lpgnet_stack,
        "fit",
        lambda model, x, *a, **k: (fitted.append(np.asarray(x.rows(range(x.shape[0])))), original(model, x, *a, **k)),
    )
    graph = scattered(90, 400)
    release = defend(graph, "inductive-evolving", math.inf, layers=1)
    clusters = lpgnet_stack.row_logits(release.predictor.models[0], release.matrix).argmax(axis=1)  # type: ignore[attr-defined]
    counts = {name: cluster_degrees(part, clusters, 3) for name, part in parts(graph).items()}
    given = fitted[1][:, 3:]
    assert len(fitted) == 2
    assert np.array_equal(given[graph.train_mask], counts["training"][graph.train_mask])
    assert np.array_equal(given[graph.val_mask], counts["validation"][graph.val_mask])
    assert not np.array_equal(given[graph.val_mask], counts["training"][graph.val_mask])
    assert np.array_equal(stored(release)[0], counts["inference"])


# -- the Bayesian read-out ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS)
def test_temperature_and_weight_are_chosen_on_validation_nodes_only(
    monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    judged: list[tuple[np.ndarray, np.ndarray]] = []
    original = bayes_readout.choose
    monkeypatch.setattr(
        bayes_readout, "choose", lambda b, e, y, val: (judged.append((y, val)), original(b, e, y, val))[1]
    )
    graph = scattered(90, 400)
    defend(graph, setting, readout="bayes", layers=2)
    assert len(judged) == 3
    assert all(y is graph.y and np.array_equal(val, graph.val_mask) for y, val in judged)


def test_only_the_nodes_of_the_mask_decide() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    logits = np.eye(3)[y] + rng.normal(size=(600, 3))
    helps = np.arange(600) < 300
    evidence = np.where(helps[:, None], 3.0 * np.eye(3)[y], 3.0 * np.eye(3)[(y + 1) % 3])
    assert bayes_readout.choose(logits, evidence, y, helps).weight == max(bayes_readout.WEIGHTS)
    assert bayes_readout.choose(logits, evidence, y, ~helps).weight == 0.0
