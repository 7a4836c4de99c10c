"""Settings: which graph trains, which answers, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import edgeveil as ev
from edgeveil.defences.job import cut, make_job
from edgeveil.errors import InputError
from edgeveil.graph.catalog import edges_apart
from edgeveil.graph.graph import Graph
from edgeveil.models.presets import preset
from edgeveil.models.settings import TrainSpec
from edgeveil.runs.rows import release_labels
from zoo import toy

pytestmark = pytest.mark.usefixtures("trained_briefly")


def job(graph: Graph, inference: Graph | None = None, setting: str | None = None, seed: int | None = 0):  # type: ignore[no-untyped-def]
    base = preset("default", "toy", "gcn")
    return make_job(graph, inference, setting, model=base.model, train=base.train, scaling="row", seed=seed)


def without_one_edge(graph: Graph) -> Graph:
    return graph.with_edge_ranks(graph.edge_ranks[1:])


def sparse(graph: Graph) -> Graph:
    return graph.with_features(sp.csr_matrix(graph.x))


def grown(graph: Graph) -> Graph:
    """One more node, all old edges."""
    x = np.concatenate([graph.x, graph.x[:1]])
    return Graph.from_edges(graph.edge_index, x=x, y=np.append(graph.y, 0))


@pytest.mark.parametrize("other", [toy(seed=3), toy(), cut(toy(), toy().train_mask), grown(toy()), toy(n=40, seed=9)])
def test_the_setting_never_depends_on_edges(other: Graph) -> None:
    """It is written into the manifest, so it may not tell whether two private graphs share edges."""
    assert job(toy()).setting == "transductive"
    for pair in ((toy(), other), (other, toy())):
        made = job(*pair)
        assert made.setting == "inductive" and made.times == 2
        bare = [g.with_edges(np.empty((2, 0), np.int64)) for g in pair]
        assert job(*bare).setting == made.setting


@pytest.mark.parametrize("defence", ["edgerand", "lapgraph", "lpgnet-2"])
def test_a_growing_graph_pays_for_both_its_states(defence: str) -> None:
    """Old edges are asked twice; the statement used to say once."""
    graph = toy()
    release = ev.defend(graph, defence, epsilon=1.5, seed=0, inference_graph=grown(graph), train=TrainSpec(epochs=5))
    claim = release.guarantee
    assert claim.epsilon == 3.0 and claim.status == "sound" and "sequential" in claim.composition
    assert {c.on for c in claim.charges} == {"both graphs"} and sum(c.epsilon for c in claim.charges) == 3
    assert release_labels(release)["epsilon"] == 3.0 and release_labels(release)["params"]["epsilon"] == 1.5
    assert release_labels(release)["setting"] == "inductive" == release.setting
    single = ev.defend(graph, defence, epsilon=1.5, seed=0, train=TrainSpec(epochs=5))
    assert "epsilon" not in release_labels(single)["params"]


def test_nodes_of_two_graphs_pay_for_their_features_twice() -> None:
    two = {"inference_graph": toy(seed=3), "epsilon_x": 3.0, "epsilon_y": 2.0, "seed": 0}
    for setting, edge in (("inductive", 8.0), ("inductive-different", 4.0)):
        claim = ev.defend(toy(), "gp-sound", epsilon=4.0, setting=setting, **two).guarantee
        found = {other.unit: other.claimed_epsilon for other in claim.also}
        assert claim.claimed_epsilon == edge and sum(c.epsilon for c in claim.charges) == 8
        assert found["one node's features"] == 6.0 and found["one node's features and label"] == 10.0


def test_releases_say_nothing_of_private_edges_in_notes_or_manifest(tmp_path: Path) -> None:
    """Two inference graphs, one that contains the training graph and one without a common edge: same words."""
    graph, said = toy(), []
    for edges in (graph.edge_index, np.array([[0], [1]])):
        other = grown(graph).with_edges(edges)
        release = ev.defend(graph, "lapgraph", epsilon=1.0, seed=0, inference_graph=other)
        manifest = json.loads((release.save(tmp_path / f"{len(said)}") / "manifest.json").read_text())
        said.append([manifest[k] for k in ("setting", "notes", "guarantee")])
    assert said[0] == said[1]


def test_the_catalogue_declares_which_of_its_graphs_share_no_edge() -> None:
    es, ru = ev.load("twitch-es-twin"), ev.load("twitch-ru-twin")
    assert (es.origin, ru.origin) == ("twitch-es-twin", "twitch-ru-twin")
    assert job(es, ru).setting == "inductive-different" and job(es, es).setting == "inductive"
    assert job(es, ru.with_edges(ru.edge_index)).setting == "inductive"  # edges of one's own are not the catalogue's
    own = Graph.from_edges(ru.edge_index, x=ru.x, y=ru.y, name="twitch-ru")
    assert job(es, own).setting == "inductive"  # a name proves nothing
    assert not edges_apart("cora", "citeseer") and edges_apart("twitch-de", "twitch-fr-twin")


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
        (lambda: job(toy(), setting="elsewhere"), "unknown setting"),
        (lambda: job(toy(), setting="inductive"), "needs an inference_graph"),
        (lambda: job(toy(), setting="inductive-different"), "needs an inference_graph"),
        (lambda: job(toy(), toy(), "transductive"), "one graph"),
        (lambda: job(toy(), toy(n=50), "inductive-evolving"), "shared node ids"),
        (lambda: job(toy(), toy(seed=5), "inductive-evolving"), "not in the inference graph"),
        (lambda: job(toy(), toy(features=9)), "columns"),
        (lambda: job(toy(), toy(), "inductive-different"), "pays twice"),
        (lambda: job(toy(), without_one_edge(toy()), "inductive-different"), "pays twice"),
        (lambda: job(sparse(toy()), sparse(without_one_edge(toy())), "inductive-different"), "pays twice"),
        (lambda: job(toy(), grown(toy()), "inductive-different"), "pays twice"),
        (lambda: job(grown(toy()), toy(), "inductive-different"), "pays twice"),
        (lambda: job(toy().with_features(None)), "no features"),
    ],
)
def test_nonsense_is_refused(make, word: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=word):
        make()


def test_nodes_are_known_again_by_name_wherever_they_stand() -> None:
    """A new node whose name sorts first moves every row by one; the old edges are still in both graphs."""
    graph = toy()
    names = [f"p{i:03d}" for i in range(graph.num_nodes)]
    old = replace(graph, node_ids=np.array(names))
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    for other in (old.subgraph(order), old.subgraph(np.arange(1, graph.num_nodes))):
        with pytest.raises(InputError, match="pays twice"):
            job(old, other, "inductive-different")
    strangers = replace(graph, node_ids=np.array([f"q{i:03d}" for i in range(graph.num_nodes)]))
    assert job(old, strangers, "inductive-different").times == 1


def test_an_assertion_that_nothing_contradicts_is_believed() -> None:
    graph = toy()
    apart = graph.with_edges(np.stack([np.arange(0, 8, 2), np.arange(1, 8, 2)]))
    left = graph.with_edge_ranks(np.setdiff1d(graph.edge_ranks, apart.edge_ranks))
    assert job(left, apart, "inductive-different").setting == "inductive-different"  # same nodes, no common edge
    alike = [g.with_features(np.ones((g.num_nodes, 2), np.float32)) for g in (graph, toy(seed=3))]
    assert job(*alike, "inductive_different").times == 1  # equal features of all nodes identify nobody


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
def test_guarantees_compose_in_parallel_where_asserted(defence: str) -> None:
    other = toy(n=40, seed=9)
    release = ev.defend(toy(), defence, epsilon=3.0, seed=0, inference_graph=other, setting="inductive-different")
    claim = release.guarantee
    assert release.num_nodes == 40 and claim.epsilon == 3.0
    assert {c.on for c in claim.charges} == {"training graph", "inference graph"} and "parallel" in claim.composition


def test_evolving_perturbs_once() -> None:
    claim = ev.defend(toy(), "lapgraph", epsilon=3.0, seed=0, setting="inductive-evolving").guarantee
    assert claim.epsilon == 3.0 and {c.on for c in claim.charges} == {"graph"}
    assert sum(c.epsilon for c in claim.charges) == 3
