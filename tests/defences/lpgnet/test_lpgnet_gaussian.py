"""LPGNet with discrete Gaussian noise: sensitivity, what is charged, what is drawn, and what is stated."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgeveil as ev
from edgeveil.defences.lpgnet.count_model import fit_count_model
from edgeveil.defences.lpgnet.degree_vectors import DegreeNoise, query_cost
from edgeveil.defences.lpgnet.lpgnet import LPGNet
from edgeveil.defences.renew import renew
from edgeveil.errors import InputError
from edgeveil.graph.cluster_degrees import CELLS, cluster_degrees
from edgeveil.models import ModelSpec, TrainSpec
from edgeveil.privacy.accountants import ACCOUNTANTS
from edgeveil.privacy.budget import Budget
from edgeveil.privacy.experiments import Effort
from edgeveil.privacy.gaussian import discrete_delta
from edgeveil.privacy.noise import noise_for
from edgeveil.privacy.verify import verify
from edgeveil.runs.rows import release_labels
from laws import fits
from zoo import scattered

pytestmark = pytest.mark.usefixtures("trained_briefly")

QUICK: dict[str, Any] = {
    "model": ModelSpec(name="mlp", hidden=4, bias=False),
    "train": TrainSpec(epochs=2, lr=0.05, keep="last"),
    "scaling": "none",
}
QUERIES = {"transductive": 1, "inductive-different": 1, "inductive-evolving": 3}


def defend(
    setting: str | None = "transductive", nodes: int = 60, edges: int = 150, seed: int | None = 0, **more: Any
) -> Any:
    if setting == "inductive-different":
        more["inference_graph"] = scattered(nodes + 30, edges, seed=7)
    how = {"epsilon": 1.0, "noise": "gaussian", **QUICK, **more}
    return ev.defend(scattered(nodes, edges), "lpgnet", setting=setting, seed=seed, **how)


@given(st.integers(2, 9), st.integers(1, 4), st.randoms(use_true_random=False))
def test_one_edge_changes_two_counts_by_one_in_two_rows(nodes: int, clusters: int, random: Any) -> None:
    pairs = [(u, v) for u in range(nodes) for v in range(u)]
    edges = random.sample(pairs, random.randint(1, len(pairs)))
    labels = np.array([random.randrange(clusters) for _ in range(nodes)])
    with_, without = (
        cluster_degrees(
            ev.Graph.from_edges(np.array(part, np.int64).reshape(-1, 2).T, num_nodes=nodes), labels, clusters
        )
        for part in (edges, edges[1:])
    )
    change = with_ - without
    assert np.count_nonzero(change) == CELLS and set(change[change != 0]) == {1}
    assert np.count_nonzero(change.any(axis=1)) == 2
    assert np.square(change).sum() == 2


@pytest.mark.parametrize("setting", QUERIES)
@pytest.mark.parametrize("layers", [1, 4])
def test_all_queries_of_a_release_fit_epsilon_and_delta_tightly(setting: str, layers: int) -> None:
    guarantee = defend(setting, layers=layers, delta=1e-5).guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.accountant) == (1.0, 1e-5, "gaussian")
    sets = {charge.on for charge in guarantee.charges}
    assert len(sets) == (2 if setting == "inductive-different" else 1)
    for on in sets:
        noises = [c.gaussian for c in guarantee.charges if c.on == on and c.gaussian is not None]
        assert len(noises) == layers * QUERIES[setting] and len(set(noises)) == 1
        spent = discrete_delta(2 * len(noises), noises[0].scale, 1.0)
        assert 0.98e-5 < spent <= 1e-5
    text = guarantee.statement()
    assert "(1, 1e-05)-differential privacy" in text and ACCOUNTANTS["gaussian"].words in text


@pytest.mark.parametrize("delta", [1e-6, 0.3])
def test_two_graphs_that_may_share_edges_keep_one_graphs_epsilon_and_the_sum(delta: float) -> None:
    """At a large delta the sum is the harder of the two promises; both must hold."""
    guarantee = defend(inference_graph=scattered(90, 100, seed=7), setting=None, delta=delta).guarantee
    assert guarantee.epsilon == 2.0 and guarantee.delta == delta
    scale = guarantee.charges[0].gaussian.scale
    assert len(guarantee.charges) == 4 and len({c.on for c in guarantee.charges}) == 1
    assert discrete_delta(4, scale, 1.0) <= delta and discrete_delta(8, scale, 2.0) <= delta


@pytest.mark.parametrize("seed", [None, 3])
def test_stored_vectors_of_an_edgeless_graph_are_that_noise(seed: int | None) -> None:
    """False alarm 1e-6 per source: the released numbers follow the discrete Gaussian law that was charged."""
    release = defend(nodes=4000, edges=0, layers=2, clip=False, seed=seed, epsilon=8.0)
    scale = float(release.guarantee.charges[0].gaussian.scale)
    reach = math.ceil(9 * scale)
    weights = {k: math.exp(-(k**2) / (2 * scale**2)) for k in range(-reach, reach + 1)}
    total = sum(weights.values())
    vectors = release.predictor.vectors
    assert len(vectors) == 2 and not np.array_equal(vectors[0], vectors[1])
    for layer in vectors:
        fits(layer.astype(int).ravel(), {k: w / total for k, w in weights.items()})


def test_delta_defaults_to_a_millionth_and_belongs_to_gaussian_noise() -> None:
    assert LPGNet(epsilon=1.0, noise="gaussian").delta == 1e-6
    assert LPGNet(epsilon=1.0).delta is None
    for bad in (0.0, 1.0, -1.0, math.nan, "small"):
        with pytest.raises(InputError, match="delta"):
            LPGNet(epsilon=1.0, noise="gaussian", delta=bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="noise='gaussian'"):
        LPGNet(epsilon=1.0, delta=1e-6)
    assert LPGNet(epsilon=4.0).mechanism_guarantee().delta == 0
    claim = LPGNet(epsilon=4.0, noise="gaussian", delta=1e-7).mechanism_guarantee()
    assert (claim.epsilon, claim.delta) == (4.0, 1e-7)


def test_a_pure_cost_is_never_used_as_the_scale_of_gaussian_noise() -> None:
    counts = np.zeros((2, 2), np.int64)
    with pytest.raises(InputError, match="gaussian noise"):
        LPGNet(epsilon=1.0, noise="gaussian").perturb_counts(counts, Fraction(1), 0)
    gaussian = query_cost(Budget(1.0, accountant="gaussian"), 1, "gaussian")
    with pytest.raises(InputError, match="discrete noise"):
        LPGNet(epsilon=1.0).perturb_counts(counts, gaussian, 0)
    assert not LPGNet(epsilon=math.inf, noise="gaussian").perturb_counts(counts, math.inf, 0).any()


def test_rows_manifests_and_renewals_carry_delta(tmp_path: Path) -> None:
    release = defend(layers=2)
    assert release_labels(release)["delta"] == 1e-6 and release_labels(release)["epsilon"] == 1.0
    release.save(tmp_path / "release")
    assert ev.Release.load(tmp_path / "release").guarantee == release.guarantee
    fresh = renew(release, scattered(60, 100, seed=5).with_features(None), epsilon=0.5, seed=1).guarantee
    assert fresh.epsilon == 1.5 and fresh.delta == pytest.approx(2e-6, rel=1e-12) and fresh.delta >= 2e-6
    assert len(fresh.charges) == 4 and "delta 1e-06 and 1e-06" in fresh.statement()
    pure = ev.defend(scattered(60, 150), "lpgnet", epsilon=1.0, seed=0, **QUICK)
    assert release_labels(pure)["delta"] == 0.0


@pytest.mark.slow
def test_the_verifier_finds_it_consistent_at_its_delta() -> None:
    found = verify(LPGNet(epsilon=4.0, noise="gaussian"), Effort(runs=400, canaries=2_000))
    assert found.verdict != "refuted"


def test_the_bayesian_read_out_knows_the_gaussian_law() -> None:
    rng = np.random.default_rng(0)
    mixing = np.array([[0.8, 0.2], [0.3, 0.7]])
    classes = rng.integers(0, 2, 1500)
    true = rng.poisson(6 * mixing[classes])
    seen = true + noise_for(1).discrete_gaussian(Fraction(2), true.size).reshape(true.shape)
    model = fit_count_model(seen, np.eye(2)[classes], DegreeNoise("gaussian", 2.0))
    assert np.abs(model.mixing - mixing).max() < 0.05
    wrong = fit_count_model(seen, np.eye(2)[classes], DegreeNoise("discrete", 2.0))

    def loss(of: Any) -> float:
        evidence = of.log_likelihood(seen)
        return -float(
            (evidence - np.logaddexp.reduce(evidence, axis=1, keepdims=True))[np.arange(1500), classes].mean()
        )

    assert loss(model) <= loss(wrong)
