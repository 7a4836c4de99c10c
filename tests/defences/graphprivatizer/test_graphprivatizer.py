"""The fast GraphPrivatizer against the algorithm as printed, its published variant, and what it promises."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import edgeveil as ev
from edgeveil.defences.defence import DEFENCES
from edgeveil.defences.graphprivatizer.graphprivatizer import GraphPrivatizer
from edgeveil.defences.graphprivatizer.local import without_kprop
from edgeveil.defences.graphprivatizer.local_audit import repeated
from edgeveil.defences.graphprivatizer.replacement import Lists, draw, overwrite
from edgeveil.defences.graphprivatizer.rr import TwoHopResponse, two_hop_blocks
from edgeveil.defences.perturbed import PerturbedGraph
from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.privacy.budget import exact
from edgeveil.privacy.noise import noise_for
from edgeveil.privacy.verify import Effort, verify
from naive_gp import candidates as naive_candidates
from naive_gp import probabilities
from zoo import toy

pytestmark = pytest.mark.usefixtures("trained_briefly")

STRATEGIES = ("threshold", "most-similar")


def small(seed: int = 0, n: int = 12) -> Graph:
    rng = np.random.default_rng(seed)
    u, v = np.triu_indices(n, 1)
    keep = rng.random(len(u)) < 0.3
    return Graph.from_edges(np.stack([u[keep], v[keep]]), x=rng.normal(size=(n, 4)), y=np.arange(n) % 3)


def options(found: Any, entry: int) -> set[int]:
    pick = np.arange(found.count[entry])
    pick += (found.skip[entry] >= 0) & (pick >= found.skip[entry])
    return set(found.pool[found.start[entry] + pick].tolist())


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("alpha", "delta"), [(0.0, 0.0), (0.5, 0.2), (1.0, 0.5), (0.25, -1.0), (0.5, 1.0)])
def test_candidates_are_those_of_the_printed_algorithms(strategy: str, alpha: float, delta: float, metric: str) -> None:
    for seed in range(3):
        graph = small(seed)
        gp = GraphPrivatizer(epsilon=1.0, strategy=strategy, alpha=alpha, delta=delta, metric=metric)  # type: ignore[arg-type]
        lists = Lists(graph.adjacency)
        found = gp.candidates(graph, FeatureMatrix.wrap(graph.x), lists)
        for entry in range(len(lists)):
            v, u = int(lists.row[entry]), int(lists.column[entry])
            want = naive_candidates(graph, graph.x, v, u, strategy=strategy, alpha=alpha, delta=delta, metric=metric)
            assert options(found, entry) == set(want)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_replacements_have_the_printed_probabilities(strategy: str) -> None:
    """Eq. 5 and 6, entry by entry; 40,000 draws, a five-sigma band (false alarm below 1e-4 in all)."""
    graph, runs = small(1), 40_000
    gp = GraphPrivatizer(epsilon=1.0, strategy=strategy, alpha=0.5, delta=0.0)  # type: ignore[arg-type]
    lists = Lists(graph.adjacency)
    found = gp.candidates(graph, FeatureMatrix.wrap(graph.x), lists)
    node = int(np.argmax(graph.degrees))
    many, column = repeated(found, lists, node, runs)
    drawn = draw(many, column, exact(1.0), noise_for(5)).reshape(runs, -1)
    for place, u in enumerate(graph.neighbours(node)):
        others = naive_candidates(
            graph, graph.x, node, int(u), strategy=strategy, alpha=0.5, delta=0.0, metric="cosine"
        )
        for w, p in probabilities(1.0, int(u), others).items():
            assert abs((drawn[:, place] == w).mean() - p) < 5 * math.sqrt(p * (1 - p) / runs) + 1e-12


def test_similarity_is_the_same_for_sparse_shifted_and_dense_features() -> None:
    graph = toy(40)
    sparse = FeatureMatrix(sp.csr_matrix(graph.x.astype(np.float64)), np.full(24, -0.5))
    dense = FeatureMatrix(sparse.toarray())
    for variant in ("correct", "published"):
        gp = GraphPrivatizer(epsilon=1.0, alpha=0.4, variant=variant)  # type: ignore[arg-type]
        lists = Lists(graph.adjacency)
        a, b = gp.candidates(graph, sparse, lists), gp.candidates(graph, dense, lists)
        assert (a.count == b.count).all() and (a.pool == b.pool).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_output_is_loop_free_and_counts_what_it_lost(strategy: str) -> None:
    graph = toy()
    noisy = GraphPrivatizer(epsilon=0.5, strategy=strategy).perturb(graph, seed=3)  # type: ignore[arg-type]
    assert isinstance(noisy, PerturbedGraph) and noisy.directed.diagonal().sum() == 0
    assert noisy.directed.nnz + noisy.dropped["duplicates"] == 2 * graph.num_edges
    both = noisy.directed + noisy.directed.T
    assert (noisy.adjacency != (both > 0)).nnz == 0
    assert (np.diff(noisy.directed.indptr) <= graph.degrees).all()
    assert type(noisy.with_edges(graph.edge_index)) is Graph


def test_features_and_labels_leave_only_privatised() -> None:
    graph = toy()
    noisy = GraphPrivatizer(epsilon=1.0).perturb(graph, seed=0)
    assert noisy.features is not None
    assert np.allclose(noisy.features.toarray(), noisy.x.toarray() + 0.5)
    assert (noisy.y != graph.y).any()
    open_ = GraphPrivatizer(epsilon=1.0, epsilon_x=math.inf, epsilon_y=math.inf).perturb(graph, seed=0)
    assert open_.x is graph.x and (open_.y == graph.y).all()


def test_a_leaf_keeps_its_neighbour_and_is_counted() -> None:
    star = Graph.from_edges(np.array([[0, 0], [1, 2]]), x=np.eye(3), y=np.arange(3))
    noisy = GraphPrivatizer(epsilon=0.1, delta=-1.0).perturb(star, seed=0)
    assert noisy.dropped["kept_for_certain"] == 2  # 0's neighbours 1 and 2 have nobody else
    counted = GraphPrivatizer(epsilon=0.1, delta=-1.0).certain_entries(star, seed=0)
    assert counted == {
        "edges": 2, "certain_edges": 2, "entries": 4, "certain": 2, "neighbours_of_degree_one": 2,
        "no_similar_candidate": 0,
    }  # fmt: skip


@pytest.mark.parametrize("variant", ["correct", "published"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_to_replace(strategy: str, variant: str) -> None:
    """No edge at all, or no neighbour that is similar enough: every list stays as it is."""
    how: Any = {"epsilon": 0.1, "strategy": strategy, "variant": variant, "epsilon_x": math.inf}
    empty = Graph.from_edges(np.empty((2, 0), np.int64), x=np.eye(3), y=np.arange(3))
    assert GraphPrivatizer(**how).perturb(empty, seed=0).num_edges == 0
    ring = Graph.from_edges(np.array([[0, 1, 2, 3], [1, 2, 3, 0]]), x=np.eye(4), y=np.arange(4))
    for alpha in (0.0, 1.0):
        if (variant, alpha) != ("published", 0.0) and (variant, alpha) != ("correct", 1.0):
            noisy = GraphPrivatizer(**how, alpha=alpha, delta=1.0).perturb(ring, seed=0)
            assert np.array_equal(noisy.edge_index, ring.edge_index)


def test_secure_and_seeded_runs() -> None:
    graph = toy()
    gp = GraphPrivatizer(epsilon=1.0)
    assert np.array_equal(gp.perturb(graph, seed=4).edge_index, gp.perturb(graph, seed=4).edge_index)
    assert not np.array_equal(gp.perturb(graph).edge_index, gp.perturb(graph).edge_index)


@pytest.mark.parametrize(
    "bad", [{"epsilon": 0}, {"epsilon": -1.0}, {"epsilon": 1.0, "alpha": 2.0}, {"epsilon": 1.0, "delta": 1.5}]
)
def test_bad_parameters_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InputError):
        GraphPrivatizer(**bad)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="most-similar"):
        GraphPrivatizer(epsilon=1.0, strategy="best")  # type: ignore[arg-type]


# -- the published variant ------------------------------------------------------------------------------------------


def test_later_turns_erase_earlier_replacements() -> None:
    """Row 0 lists 1, 2, 3. 1 -> 2 is cleared by 2's own turn; 3 -> 1 comes after 1's turn and stays."""
    star = Graph.from_edges(np.array([[0, 0, 0], [1, 2, 3]]), x=np.eye(4))
    lists = Lists(star.adjacency)
    column = lists.column.copy()
    column[:3] = [2, 9 % 4, 1]  # 1 -> 2, 2 -> 1, 3 -> 1
    row, kept = overwrite(lists, column)
    assert kept[row == 0].tolist() == [1]


def test_published_rows_match_an_in_place_edit() -> None:
    rng = np.random.default_rng(0)
    for seed in range(20):
        graph = small(seed)
        lists = Lists(graph.adjacency)
        column = np.where(rng.random(len(lists)) < 0.5, rng.integers(0, graph.num_nodes, len(lists)), lists.column)
        matrix = np.asarray(graph.adjacency.todense()) > 0
        for v, u, w in zip(lists.row, lists.column, column, strict=True):
            matrix[v, u] = False
            matrix[v, w] = True
        row, kept = overwrite(lists, column)
        again = np.zeros_like(matrix)
        again[row, kept] = True
        assert (again == matrix).all()


def test_published_variant_differs_as_documented() -> None:
    graph = toy(80)
    noisy = GraphPrivatizer(epsilon=0.1, variant="published").perturb(graph, seed=0)
    assert noisy.dropped["self_loops"] > 0 and noisy.directed.diagonal().sum() == noisy.dropped["self_loops"]
    leaves = Graph.from_edges(np.array([[0, 1], [1, 2]]), x=np.ones((3, 2)), y=np.arange(3))
    gp = GraphPrivatizer(epsilon=0.1, variant="published", epsilon_x=math.inf, delta=-1.0)
    found = gp.candidates(leaves, FeatureMatrix.wrap(leaves.x), lists := Lists(leaves.adjacency))
    assert (found.count[lists.degree[lists.column] == 1] == 0).all()


# -- the baselines --------------------------------------------------------------------------------------------------


def test_two_hop_lists_are_complete() -> None:
    graph = small(2, 20)
    a = np.asarray(graph.adjacency.todense()) > 0
    reach = (a | (a @ a > 0)) & ~np.eye(20, dtype=bool)
    v, w, linked = (np.concatenate(part) for part in zip(*two_hop_blocks(graph.adjacency, own=False), strict=True))
    found = np.zeros_like(a)
    found[v, w] = True
    assert (found == reach).all() and (linked == a[v, w]).all()


def test_rr_flips_at_the_stated_rate() -> None:
    graph = toy(200)
    noisy = TwoHopResponse(epsilon=1.0).perturb(graph, seed=1).directed
    covered = sum(len(v) for v, _, _ in two_hop_blocks(graph.adjacency, own=False))
    kept = noisy.multiply(graph.adjacency).nnz
    false = noisy.nnz - kept
    flip = 1 / (math.e + 1)
    links = 2 * graph.num_edges
    assert abs(kept / links - (1 - flip)) < 5 * math.sqrt(flip / links)
    assert abs(false / (covered - links) - flip) < 5 * math.sqrt(flip / (covered - links))


@pytest.mark.parametrize("name", ["gp-m", "gp-t", "rr"])
def test_verify_refutes(name: str) -> None:
    result = verify(DEFENCES.create(name, epsilon=4.0), Effort(runs=300))
    assert result.verdict == "refuted" and math.isinf(result.lower_bound)


# -- releases -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gp-m", "gp-t", "rr", "lpgnn"])
def test_guarantees_are_honest(name: str) -> None:
    mechanism = DEFENCES.create(name, **({} if name == "lpgnn" else {"epsilon": 2.0}))
    claim = mechanism.mechanism_guarantee(None)  # type: ignore[attr-defined]
    assert claim.epsilon is None and claim.status == ("none" if name == "lpgnn" else "refuted")
    assert claim.claimed_epsilon == (None if name == "lpgnn" else 2.0)
    assert [(g.unit, g.claimed_epsilon) for g in claim.also] == [
        ("one node's features", 3.0), ("one node's label", 3.0), ("one node's features and label", 6.0),
    ]  # fmt: skip
    bare = replace(mechanism, epsilon_x=math.inf, epsilon_y=math.inf)  # type: ignore[type-var]
    assert not bare.mechanism_guarantee(None).also


@pytest.mark.parametrize("model", ["gcn", "gat", "gatv2", "sage", "graphconv", "transformer"])
def test_all_models_train_on_noisy_lists(model: str) -> None:
    release = ev.defend(toy(), "gp-t", epsilon=2.0, model=model, seed=0)
    assert release.predictor.spec.kprop == 4 and release.predict().shape == (60, 3)  # type: ignore[attr-defined]
    assert not np.allclose(without_kprop(release).predict(), release.predict())


def test_kprop_steps_can_be_chosen_and_infinite_epsilon_is_lpgnn() -> None:
    graph = toy()
    assert ev.defend(graph, "gp-t", epsilon=1.0, seed=0, steps_x=0).predictor.spec.kprop == 0
    free = ev.defend(graph, "gp-t", epsilon=math.inf, seed=0)
    assert free.guarantee.status == "none" and free.contains_private_graph
    assert np.array_equal(free.predict(), ev.defend(graph, "lpgnn", seed=0).predict())


def test_inductive_settings() -> None:
    graph, other = toy(), toy(45, seed=9)
    assert ev.defend(graph, "gp-t", epsilon=1.0, seed=0, inference_graph=other).predict().shape == (45, 3)
    evolving = ev.defend(graph, "gp-t", epsilon=1.0, seed=0, setting="inductive-evolving")
    assert evolving.predict().shape == (60, 3)


def test_several_labels_per_node_need_open_labels() -> None:
    graph = toy()
    many = graph.with_labels(np.eye(3, dtype=np.int64)[graph.y])
    with pytest.raises(InputError, match="epsilon_y=inf"):
        GraphPrivatizer(epsilon=1.0).perturb(many, seed=0)
    assert ev.defend(many, "gp-t", epsilon=1.0, seed=0, epsilon_y=math.inf).multilabel


def test_a_graph_without_features_is_refused() -> None:
    bare = Graph.from_edges(np.array([[0], [1]]), num_nodes=2)
    with pytest.raises(InputError, match="no features"):
        GraphPrivatizer(epsilon=1.0).perturb(bare, seed=0)


@pytest.mark.data
def test_cora_numbers_of_the_authors_code() -> None:
    """Their code, run once: 9,076 (GP-t) and 9,189 (GP-m) entries of 10,556, 744 self-loops, RR 47,836 entries."""
    graph = ev.load("cora")
    for strategy, entries in (("threshold", 9076), ("most-similar", 9189)):
        noisy = GraphPrivatizer(epsilon=0.1, strategy=strategy, variant="published").perturb(graph, seed=0)  # type: ignore[arg-type]
        assert abs(noisy.directed.nnz - entries) < 150
    assert abs(TwoHopResponse(epsilon=0.1, variant="published").perturb(graph, seed=0).directed.nnz - 47836) < 700
