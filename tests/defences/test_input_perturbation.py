"""LinkTeller Algorithm 2: perturb, train, answer; what is spent in each setting."""

from __future__ import annotations

import numpy as np
import pytest

from edgeveil.defences.defend import defend
from edgeveil.graph.graph import Graph
from edgeveil.models.train import TrainSpec
from edgeveil.privacy.guarantee import SECURE, SEEDED
from edgeveil.release.release import Release


def toy(n: int = 60, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    u, v = np.triu_indices(n, 1)
    keep = rng.random(len(u)) < np.where(y[u] == y[v], 0.2, 0.03)
    part = rng.permutation(n)
    masks = {
        k: np.isin(np.arange(n), m) for k, m in zip(("train", "val", "test"), np.split(part, [30, 45]), strict=True)
    }
    x = (rng.random((n, 8)) < 0.2 + 0.5 * (np.arange(8) % 3 == y[:, None])).astype(np.float32)
    return Graph.from_edges(
        np.stack([u[keep], v[keep]]), x, y,
        train_mask=masks["train"], val_mask=masks["val"], test_mask=masks["test"],
    )  # fmt: skip


def release(name: str, **options: object) -> Release:
    settings = {"epsilon": 4.0, "seed": 0, "train": TrainSpec(epochs=3), **options}
    return defend(toy(), name, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["edgerand", "lapgraph"])
@pytest.mark.parametrize("model", ["gcn", "gat", "gatv2", "sage", "graphconv", "transformer"])
def test_any_model_trains_on_the_noisy_graph(name: str, model: str) -> None:
    made = release(name, model=model)
    assert made.predict().shape == (60, 3)
    assert (made.guarantee.status, made.guarantee.epsilon, made.guarantee.randomness) == ("sound", 4.0, SEEDED)
    assert not made.contains_private_graph


@pytest.mark.parametrize("name", ["edgerand", "lapgraph"])
def test_two_disjoint_graphs_cost_epsilon_once(name: str) -> None:
    made = release(name, inference_graph=toy(41, seed=5), setting="inductive-different")
    assert made.predict().shape == (41, 3)
    assert {c.on for c in made.guarantee.charges} == {"training graph", "inference graph"}
    assert made.guarantee.epsilon == 4.0 and "parallel" in made.guarantee.composition


@pytest.mark.parametrize("name", ["edgerand", "lapgraph"])
def test_an_evolving_graph_is_perturbed_once(name: str) -> None:
    made = release(name, setting="inductive-evolving")
    assert {c.on for c in made.guarantee.charges} == {"graph"}
    assert sum(c.epsilon for c in made.guarantee.charges) == 4


def test_without_a_seed_the_noise_is_secure_and_answers_stay_the_same() -> None:
    made = release("lapgraph", seed=None)
    assert made.guarantee.randomness == SECURE
    assert np.array_equal(made.predict(), made.predict())


def test_the_statement_says_that_tuning_is_not_covered() -> None:
    assert "hyper-parameters" in release("edgerand").guarantee.statement()
