from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from edgeveil.errors import GraphError, UnknownNameError
from edgeveil.graph.sparse import is_symmetric, k_hop, normalise, submatrix


def path_with_isolated() -> sp.csr_matrix:
    """0 - 1 - 2 - 3 and the isolated node 4."""
    a = np.zeros((5, 5))
    for u, v in ((0, 1), (1, 2), (2, 3)):
        a[u, v] = a[v, u] = 1
    return sp.csr_matrix(a)


def test_the_four_normalisations_are_the_papers_formulas():
    a = path_with_isolated().toarray()
    d = a.sum(1)
    eye = np.eye(5)
    root = np.diag([x**-0.5 if x else 0.0 for x in d])
    looped = np.diag((d + 1) ** -0.5)
    assert np.allclose(normalise(a, "first-order").toarray(), eye + root @ a @ root)
    assert np.allclose(normalise(a, "aug").toarray(), looped @ (a + eye) @ looped)
    assert np.allclose(normalise(a, "bingge").toarray(), eye + looped @ (a + eye) @ looped)
    assert np.allclose(normalise(a, "aug-rwalk").toarray(), np.diag(1 / (d + 1)) @ (a + eye))


def test_isolated_nodes_get_no_neighbours_and_no_nan():
    for kind in ("first-order", "sym", "mean", "sum"):
        row = normalise(path_with_isolated(), kind).toarray()[4]
        assert np.isfinite(row).all()
        assert row.sum() == (1.0 if kind == "first-order" else 0.0)


def test_given_loops_are_not_counted_twice():
    a = path_with_isolated()
    looped = (a + sp.identity(5)).tocsr()
    assert np.allclose(normalise(looped, "aug").toarray(), normalise(a, "aug").toarray())


def test_input_is_never_changed():
    a = path_with_isolated()
    a.data.setflags(write=False)
    before = a.toarray()
    for kind in ("first-order", "aug", "bingge", "aug-rwalk", "sym", "mean", "sum"):
        normalise(a, kind)
    assert (a.toarray() == before).all()


def test_symmetry_is_exact():
    a = path_with_isolated()
    assert is_symmetric(a)
    assert is_symmetric(normalise(a, "aug"))
    assert not is_symmetric(normalise(a, "aug-rwalk"))


def test_k_hop_follows_messages():
    graph = nx.gnp_random_graph(40, 0.06, seed=3, directed=True)
    a = sp.csr_matrix(nx.to_scipy_sparse_array(graph, format="csr"))  # row i lists successors = senders
    for hops in (0, 1, 2, 5):
        senders = nx.single_source_shortest_path_length(graph, 7, cutoff=hops)
        assert list(k_hop(a, [7], hops)) == sorted(senders)
        readers = nx.single_source_shortest_path_length(graph.reverse(), 7, cutoff=hops)
        assert list(k_hop(a, [7], hops, direction="out")) == sorted(readers)


def test_submatrix_keeps_the_order():
    a = path_with_isolated()
    assert (submatrix(a, np.array([2, 1])).toarray() == [[0, 1], [1, 0]]).all()


def test_errors_name_the_remedy():
    with pytest.raises(UnknownNameError, match="aug"):
        normalise(path_with_isolated(), "augg")
    with pytest.raises(GraphError, match="square"):
        normalise(np.ones((2, 3)), "aug")
