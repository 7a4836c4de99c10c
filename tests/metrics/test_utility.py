from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from edgeveil.errors import InputError
from edgeveil.metrics.utility import by_degree, homophily, utility
from tries import tries


@settings(max_examples=tries(60), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(2, 5))
def test_single_label_scores_equal_scikit_learn(seed, n, classes):
    rng = np.random.default_rng(seed)
    y, logits = rng.integers(0, classes, n), rng.standard_normal((n, classes))
    said = logits.argmax(1)
    ours = utility(logits, y)
    assert ours["accuracy"] == pytest.approx(accuracy_score(y, said))
    assert ours["micro_f1"] == pytest.approx(f1_score(y, said, average="micro"))
    assert ours["macro_f1"] == pytest.approx(f1_score(y, said, average="macro"))
    expected = f1_score(y, said, average=None, labels=range(classes), zero_division=0)
    assert ours["per_class_f1"] == pytest.approx(list(expected))
    if classes == 2:
        rare = 0 if (y == 0).sum() < (y == 1).sum() else 1
        assert ours["rare_class"] == rare
        assert ours["rare_f1"] == pytest.approx(f1_score(y, said, pos_label=rare, zero_division=0))


@settings(max_examples=tries(30), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_multilabel_scores_equal_scikit_learn(seed, n):
    rng = np.random.default_rng(seed)
    y, logits = rng.integers(0, 2, (n, 4)), rng.standard_normal((n, 4))
    ours = utility(logits, y, multilabel=True)
    assert ours["micro_f1"] == pytest.approx(f1_score(y, logits > 0, average="micro", zero_division=0))
    assert ours["macro_f1"] == pytest.approx(f1_score(y, logits > 0, average="macro", zero_division=0))


def test_masks_and_missing_labels_are_left_out():
    logits = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert utility(logits, np.array([0, -1, 0]))["accuracy"] == 0.5
    assert utility(logits, np.array([0, 1, 0]), np.array([True, True, False]))["accuracy"] == 1.0
    with pytest.raises(InputError, match="mask is empty"):
        utility(logits, np.array([0, 1, 0]), np.zeros(3, bool))
    with pytest.raises(InputError, match="do not fit"):
        utility(logits, np.zeros((3, 2), int))


def test_degree_bins_partition_the_nodes_and_share_one_rare_class():
    rng = np.random.default_rng(0)
    n = 200
    y, logits, degrees = (rng.random(n) < 0.3).astype(int), rng.standard_normal((n, 2)), rng.integers(0, 50, n)
    rows = by_degree(logits, y, degrees, [0, 5, 20, 100])
    assert sum(r["nodes"] for r in rows) == n
    assert {r["rare_class"] for r in rows} == {1}
    inside = (degrees >= 5) & (degrees < 20)
    assert rows[1]["rare_f1"] == pytest.approx(f1_score(y[inside], logits[inside].argmax(1)))


def test_homophily_per_cluster_is_the_mean_share_of_like_neighbours():
    graph = nx.gnp_random_graph(30, 0.1, seed=2)
    graph.add_node(30)  # isolated
    clusters = np.random.default_rng(0).integers(0, 3, 31)
    a = sp.csr_matrix(nx.to_scipy_sparse_array(graph, format="csr"))
    shares = {u: np.mean([clusters[u] == clusters[v] for v in graph[u]]) for u in graph if graph.degree(u)}
    expected = [np.mean([s for u, s in shares.items() if clusters[u] == c]) for c in range(3)]
    assert homophily(a, clusters) == pytest.approx(expected)
    assert np.isnan(homophily(a, clusters, 4)[3])
