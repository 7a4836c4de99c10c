"""Settings: which graph trains, which answers, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import edgeveil as ev
from edgeveil.defences.job import cut, make_job
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.models.presets import preset
from zoo import toy


def job(graph: Graph, inference: Graph | None = None, setting: str | None = None, seed: int | None = 0):  # type: ignore[no-untyped-def]
    base = preset("default", "toy", "gcn")
    return make_job(graph, inference, setting, model=base.model, train=base.train, scaling="row", seed=seed)


def without_one_edge(graph: Graph) -> Graph:
    return graph.with_edge_ranks(graph.edge_ranks[1:])


def sparse(graph: Graph) -> Graph:
    return graph.with_features(sp.csr_matrix(graph.x))


def test_the_setting_is_inferred_and_said() -> None:
    graph = toy()
    assert job(graph).setting == "transductive"
    assert job(graph, toy(seed=3)).setting == "inductive-different"
    evolving = job(cut(graph, graph.train_mask), graph)
    assert evolving.setting == "inductive-evolving" and "every training edge" in evolving.notes[0]


def test_evolving_on_one_graph_trains_on_the_edges_among_training_nodes() -> None:
    graph = toy()
    made = job(graph, setting="inductive-evolving")
    u, v = made.graph.edge_index
    assert graph.train_mask[u].all() and graph.train_mask[v].all()
    inside = graph.train_mask[graph.edge_index].all(axis=0).sum()
    assert made.graph.num_edges == inside and made.inference is graph


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: job(toy(), setting="inductive"), "unknown setting"),
        (lambda: job(toy(), setting="inductive-different"), "needs an inference_graph"),
        (lambda: job(toy(), toy(), "transductive"), "one graph"),
        (lambda: job(toy(), toy(n=50), "inductive-evolving"), "shared node ids"),
        (lambda: job(toy(), toy(seed=5), "inductive-evolving"), "not in the inference graph"),
        (lambda: job(toy(), toy(features=9)), "columns"),
        (lambda: job(toy(), toy(), "inductive-different"), "pays twice"),
        (lambda: job(toy(), without_one_edge(toy())), "pays twice"),
        (lambda: job(sparse(toy()), sparse(without_one_edge(toy()))), "pays twice"),
        (lambda: job(toy().with_features(None)), "no features"),
    ],
)
def test_nonsense_is_refused(make, word: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=word):
        make()


def test_noise_streams_are_named_and_absent_without_a_seed() -> None:
    seeded, real = job(toy(), seed=4), job(toy(), seed=None)
    assert seeded.noise_seed("a") != seeded.noise_seed("b") and seeded.noise_seed("a") == job(toy(), seed=4).noise_seed(
        "a"
    )
    assert real.noise_seed("a") is None and "entropy" in real.randomness


def test_graphs_without_masks_train_on_all_labelled_nodes() -> None:
    graph = toy()
    bare = Graph.from_edges(graph.edge_index, x=graph.x, y=np.where(np.arange(60) < 50, graph.y, -1))
    made = job(bare)
    assert made.train_mask.sum() == 50 and made.val_mask is None and not made.train_spec.needs_validation


@pytest.mark.parametrize("defence", ["edgerand", "lapgraph"])
def test_inductive_guarantees_compose_in_parallel(defence: str) -> None:
    release = ev.defend(toy(), defence, epsilon=3.0, seed=0, inference_graph=toy(n=40, seed=9))
    claim = release.guarantee
    assert release.num_nodes == 40 and claim.epsilon == 3.0
    assert {c.on for c in claim.charges} == {"training graph", "inference graph"} and "parallel" in claim.composition


def test_evolving_perturbs_once() -> None:
    claim = ev.defend(toy(), "lapgraph", epsilon=3.0, seed=0, setting="inductive-evolving").guarantee
    assert claim.epsilon == 3.0 and {c.on for c in claim.charges} == {"graph"}
    assert sum(c.epsilon for c in claim.charges) == 3
