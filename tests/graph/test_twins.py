"""Synthetic graphs: exact counts, published homophily, heavy tails, the same graph everywhere."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from edgeveil.errors import InputError
from edgeveil.graph import twins
from edgeveil.graph.catalog import dataset, names
from edgeveil.graph.datasets import load
from edgeveil.graph.graph import Graph
from edgeveil.graph.twin_edges import block_edges, from_quantiles, mixing, split_integer, with_sum
from edgeveil.seeds import stream

CORA = "3aa0281738ae0cf39b078ed50767030da002e71f6698a7a552b2b51554836a63"
BIPARTITE = "9ff0a8a5a745a4e2f1c9d73375e338e09f4e171e62a16180be1a262ccf860e01"
SMALL = [name for name in names() if name not in ("flickr", "facebook", "amazon-photo", "lastfm", "twitch-de")]


def homophily(graph: Graph) -> float:
    u, v = graph.edge_index
    return float((graph.y[u] == graph.y[v]).mean())


@pytest.mark.parametrize("name", SMALL)
def test_a_twin_has_the_statistics_of_its_original(name: str) -> None:
    record, graph = dataset(name), load(f"{name}-twin")
    assert (graph.num_nodes, graph.num_edges) == (record.nodes, record.edges)
    assert (graph.num_features, graph.num_classes) == (record.features, record.classes)
    assert graph.is_twin and graph.name == f"{name}-twin" and "synthetic twin" in repr(graph)
    assert graph.split == record.default_split
    if record.multilabel or record.generated:
        return
    assert np.bincount(graph.y).tolist() == record.twin["class_sizes"]
    assert graph.x.nnz == record.twin["feature_nnz"]
    assert homophily(graph) == pytest.approx(record.homophily, abs=5e-5)
    assert graph.degrees.max() > 8 * np.median(graph.degrees)


def test_cora_twin_in_detail() -> None:
    graph = load("cora_twin")
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (2708, 5278, 1433)
    assert graph.split == "public"
    assert [int(mask.sum()) for mask in graph.masks] == [140, 500, 1000]
    assert np.bincount(graph.y[graph.train_mask]).tolist() == [20] * 7
    assert graph.degrees.max() > 80 and graph.degrees.min() >= 0


def test_twins_are_the_same_on_every_machine() -> None:
    """Fixed fingerprints: a change here changes every number published for a twin, so it needs a changelog entry."""
    assert load("cora-twin").fingerprint == CORA
    assert load("bipartite").with_split(None).fingerprint == BIPARTITE
    twins.twin.cache_clear()
    assert load("cora-twin").fingerprint == CORA


def test_a_twin_shares_no_structure_with_the_original_split_names_it_does() -> None:
    assert list(load("chameleon-twin").splits) == [str(k) for k in range(10)]
    assert [int(m.sum()) for m in load("chameleon-twin", 9).masks] == [1093, 729, 455]
    assert load("twitch-es-twin").masks is None


def test_twitch_twins_share_the_meaning_of_columns() -> None:
    es, ru = load("twitch-es-twin"), load("twitch-ru-twin")

    def lean(graph: Graph) -> np.ndarray:
        rows = [np.asarray(graph.x[graph.y == c].mean(axis=0)).ravel() for c in (0, 1)]
        return rows[1] - rows[0]

    assert np.corrcoef(lean(es), lean(ru))[0, 1] > 0.3  # unrelated columns: 0 ± 0.02


def test_bipartite_is_lpgnets_recipe() -> None:
    graph = load("bipartite")
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (900, 2, 2)
    assert np.bincount(graph.y).tolist() == [500, 400] and homophily(graph) == 0
    assert abs(graph.num_edges - 10_000) < 5 * np.sqrt(200_000 * 0.05 * 0.95)  # five standard deviations
    first, second = graph.x[:500], graph.x[500:]
    assert (first[:, 0] == -1).sum() == 125 and (second[:, 0] == 1).sum() == 250
    assert (graph.x.sum(axis=1) == 0).all()
    assert [int(m.sum()) for m in graph.masks] == [315, 135, 450]
    assert dataset("bipartite").edges == graph.num_edges
    twin = load("bipartite-twin")
    assert twin.num_edges == graph.num_edges and twin.fingerprint != graph.fingerprint


def test_ppi_twin_is_multilabel_and_its_parts_share_no_edge() -> None:
    graph = load("ppi-twin")
    assert graph.multilabel and graph.y.shape == (14_755, 121) and graph.num_edges == 225_270
    part = np.argmax(graph.masks, axis=0)
    u, v = graph.edge_index
    assert (part[u] == part[v]).all() and [int(m.sum()) for m in graph.masks] == [9716, 1825, 3214]
    assert 0.2 < graph.y.mean() < 0.4


def smooth(graph: Graph) -> sp.csr_matrix:
    a = graph.adjacency + sp.identity(graph.num_nodes, format="csr")
    scale = sp.diags(1 / np.sqrt(np.asarray(a.sum(axis=1)).ravel()))
    step = scale @ a @ scale
    return sp.csr_matrix(step @ (step @ graph.x))


@pytest.mark.parametrize(("name", "mlp", "gcn"), [("cora", 0.60, 0.81), ("citeseer", 0.60, 0.72)])
def test_structure_helps_about_as_much_as_published(name: str, mlp: float, gcn: float) -> None:
    """Logistic regression on raw and on twice-propagated features stands in for MLP and GCN (LPGNet Table 2)."""
    graph = load(f"{name}-twin")
    scores = []
    for x in (graph.x, smooth(graph)):
        rows = 10 * sp.diags(1 / np.maximum(np.asarray(abs(x).sum(axis=1)).ravel(), 1e-9)) @ x
        model = LogisticRegression(max_iter=60).fit(rows[graph.train_mask], graph.y[graph.train_mask])
        scores.append(model.score(rows[graph.test_mask], graph.y[graph.test_mask]))
    assert scores[0] == pytest.approx(mlp, abs=0.1) and scores[1] == pytest.approx(gcn, abs=0.1)
    assert scores[1] > scores[0] + 0.08


@pytest.mark.slow
def test_flickr_twin_in_under_a_minute() -> None:
    start = time.process_time()
    graph = load("flickr-twin")
    assert time.process_time() - start < 60
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (89_250, 449_878, 500, 7)
    assert graph.split == "evolving" and [int(m.sum()) for m in graph.masks] == [44625, 22313, 22312]
    assert homophily(graph) == pytest.approx(0.3195, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(names()) - set(SMALL) - {"flickr"}))
def test_the_larger_twins(name: str) -> None:
    test_a_twin_has_the_statistics_of_its_original(name)


@given(st.lists(st.integers(0, 50), min_size=19, max_size=19).map(sorted), st.integers(1, 400))
def test_quantiles_are_reached(values: list[int], n: int) -> None:
    drawn = from_quantiles(values, n)
    assert (np.diff(drawn) >= 0).all() and drawn[0] == values[0]
    assert n == 1 or drawn[-1] == values[-1]


@given(st.integers(0, 1000), st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_integers_split_exactly(total: int, weights: list[int]) -> None:
    parts = split_integer(total, weights)
    assert sum(parts) == total
    assert all(abs(p - total * w / sum(weights)) < 1 for p, w in zip(parts, weights, strict=True))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=20), st.data())
def test_sums_are_exact_and_bounded(values: list[int], data: st.DataObject) -> None:
    total = data.draw(st.integers(len(values), 40 * len(values)))
    out = with_sum(np.array(values), total, stream(0, "t"), 1, 40)
    assert out.sum() == total and out.min() >= 1 and out.max() <= 40
    with pytest.raises(InputError, match="cannot sum"):
        with_sum(np.array(values), 41 * len(values), stream(0, "t"), 1, 40)


@given(st.lists(st.integers(4, 9), min_size=2, max_size=4), st.integers(0, 1000), st.data())
def test_block_counts_are_exact(sizes: list[int], boundary: int, data: st.DataObject) -> None:
    y = np.repeat(np.arange(len(sizes)), sizes)
    edges = data.draw(st.integers(1, 12))
    blocks = mixing(sizes, edges, data.draw(st.sampled_from([0.0, 0.3, 0.5])))
    found = block_edges(y, np.ones(len(y), np.int64), blocks, stream(1, "t"), boundary)
    assert Graph.from_edges(found, num_nodes=len(y)).num_edges == edges == found.shape[1]
    low, high = np.sort(y[found], axis=0)
    for a, row in enumerate(blocks):
        assert [int(((low == a) & (high == b)).sum()) for b in range(a, len(sizes))] == list(row)


def test_impossible_blocks_are_refused() -> None:
    with pytest.raises(InputError, match="do not fit"):
        block_edges(np.array([0, 0, 1]), np.ones(3, np.int64), [[5, 0], [0]], stream(0, "t"))
