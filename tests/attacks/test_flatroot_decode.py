"""The decoder of flat answers: `certified` is never wrong, on all small graphs, and says no where two graphs agree."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeveil.attacks.flatroot.confirm import eigenvector, fresh_bounds
from edgeveil.attacks.flatroot.decode import decode
from edgeveil.attacks.flatroot.degrees import two_step_degrees
from edgeveil.attacks.flatroot.edgewise import checked, leading_degrees
from edgeveil.attacks.flatroot.forms import Form
from edgeveil.attacks.flatroot.mixes import decode_mix
from edgeveil.attacks.flatroot.row_decoding import Rows
from edgeveil.errors import InputError
from tries import tries

POWERS = ("aug", "aug-rwalk", "first-order", "bingge")
ERROR = 1e-13


def graph(mask: int, n: int) -> frozenset:
    i, j = np.triu_indices(n, 1)
    return frozenset((int(a), int(b)) for k, (a, b) in enumerate(zip(i, j, strict=True)) if mask >> k & 1)


def matrix(edges, n: int):
    a = np.zeros((n, n))
    for u, v in edges:
        a[u, v] = a[v, u] = 1.0
    return sp.csr_matrix(a)


def pairs(found) -> frozenset:
    return frozenset(map(tuple, found.T.tolist()))


def naive_power(edges, n: int, form: Form):
    """P^k written out, sharing no code with the package."""
    a = matrix(edges, n).toarray()
    loops = a + np.eye(n)
    if form.norm == "aug-rwalk":
        p = loops / loops.sum(1)[:, None]
    elif form.norm == "first-order":
        d = a.sum(1)
        root = np.where(d > 0, 1 / np.sqrt(np.maximum(d, 1)), 0)
        p = np.eye(n) + root[:, None] * a * root
    else:
        root = 1 / np.sqrt(loops.sum(1))
        p = root[:, None] * loops * root + (np.eye(n) if form.norm == "bingge" else 0)
    return np.linalg.matrix_power(p, form.layers)


def families(form: Form, n: int, masks):
    """Graphs by their product: those that share one cannot be told apart by anybody."""
    powers, kin = {}, defaultdict(list)
    for mask in masks:
        g = graph(mask, n)
        m = naive_power(g, n, form)
        powers[g] = m
        kin[tuple(np.round(m, 9).ravel() + 0.0)].append(g)
    return powers, {g: group for group in kin.values() for g in group}


@pytest.mark.fast("aug-1", "aug-2", "aug-rwalk-2", "aug-rwalk-3", "first-order-2", "bingge-3")
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("norm", POWERS)
def test_certified_exactly_where_the_graph_is_unique_on_all_graphs_of_four_nodes(norm, layers):
    check_all(Form(norm, layers), 4, range(64))


@pytest.mark.slow
def test_certified_exactly_where_the_graph_is_unique_on_all_graphs_of_five_nodes():
    check_all(Form("aug", 2), 5, range(1024), every=6)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("norm", POWERS)
def test_all_graphs_of_five_nodes_in_every_form(norm, layers):
    check_all(Form(norm, layers), 5, range(1024))


def check_all(form: Form, n: int, masks, every: int = 1) -> None:
    powers, kin = families(form, n, masks)
    for g, m in list(powers.items())[::every]:
        got = decode(sp.csr_matrix(2.3 * m), form, 2.3 * ERROR)
        assert got.consistent
        assert got.certified == (len(kin[g]) == 1)
        if got.certified:
            assert pairs(got.edges) == g
        else:
            assert pairs(got.edges) == frozenset.intersection(*kin[g])
            for pair, p in zip(map(tuple, got.open.T.tolist()), got.probability, strict=True):
                assert p == pytest.approx(np.mean([pair in other for other in kin[g]]))


@pytest.mark.slow
def test_graphs_of_six_nodes_that_share_a_product_are_never_certified():
    form = Form("aug", 2)
    rng = np.random.default_rng(0)
    powers, kin = families(form, 6, range(1 << 15))
    shared = [g for g in powers if len(kin[g]) > 1]
    assert len(shared) == 2650
    alone = [g for g in powers if len(kin[g]) == 1]
    some = [shared[i] for i in rng.choice(len(shared), 60, replace=False)]
    some += [alone[i] for i in rng.choice(len(alone), 150, replace=False)]
    for g in some:
        got = decode(sp.csr_matrix(powers[g]), form, ERROR)
        assert got.certified == (len(kin[g]) == 1) and (not got.certified or pairs(got.edges) == g)


def test_the_three_labelled_squares_are_named_with_their_probabilities():
    square = [(0, 1), (1, 2), (2, 3), (0, 3)]
    got = decode(Form("aug", 2).power(matrix(square, 5)), Form("aug", 2), ERROR)
    assert got.consistent and not got.certified and not got.edges.size and "not unique" in got.note
    assert got.open.shape == (2, 6) and got.probability == pytest.approx(np.full(6, 2 / 3))


edge_sets = st.integers(2, 24).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] < e[1]), max_size=60),
    )
)


@settings(max_examples=tries(60), deadline=None)
@given(edge_sets, st.sampled_from(POWERS), st.integers(1, 3), st.floats(-6, 6), st.integers(0, 99))
def test_certified_is_never_wrong_on_random_graphs(spec, norm, layers, size, seed):
    n, edges = spec
    form, scale = Form(norm, layers), 10.0**size
    m = scale * naive_power(edges, n, form)
    error = 1e-10 * scale
    m = np.where(m > 0, m + np.random.default_rng(seed).uniform(-error, error, m.shape), 0.0)
    got = decode(sp.csr_matrix(m), form, error)
    assert not got.certified or pairs(got.edges) == frozenset(edges)
    if got.consistent and layers == 2:
        assert pairs(got.edges) <= frozenset(edges) <= pairs(got.edges) | pairs(got.open)


@pytest.mark.parametrize("error", [1e-6, 1e-4, 1e-2])
def test_coarse_products_certify_only_what_is_true(error):
    """Rounding as large as stated: rules that become ambiguous must not force."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        n = 14
        edges = graph(int(rng.integers(1 << 60)) & int(rng.integers(1 << 60)), n)
        form = Form(str(rng.choice(POWERS)), 2)
        m = naive_power(edges, n, form)
        m = np.where(m > 0, m + rng.uniform(-error, error, m.shape), 0.0)
        got = decode(sp.csr_matrix(np.maximum(m, 0)), form, error)
        assert not got.certified or pairs(got.edges) == edges
        if got.consistent:
            assert pairs(got.edges) <= edges or "not proven" in got.note


@pytest.mark.parametrize("norm", POWERS)
def test_degrees_follow_from_a_trace_without_any_search(norm):
    """Regular components (a triangle, a square, a pentagon) give no hint by their ratios; lone nodes are told apart."""
    rings = [
        (0, 1),
        (1, 2),
        (0, 2),
        (3, 4),
        (4, 5),
        (5, 6),
        (3, 6),
        (7, 8),
        (8, 9),
        (9, 10),
        (10, 11),
        (7, 11),
        (12, 13),
    ]
    form = Form(norm, 2)
    got = two_step_degrees(form.power(matrix(rings, 15)).tocsr() * 0.31, form, ERROR)
    assert got is not None and got.proven and got.gamma == pytest.approx(0.31)
    expected = np.bincount(np.array(rings).ravel(), minlength=15) + form.loops
    assert np.array_equal(got.degree, expected)


def test_a_matrix_that_is_no_power_asserts_nothing():
    rng = np.random.default_rng(0)
    noise = rng.random((12, 12))
    for norm in POWERS:
        for layers in (1, 2, 3):
            got = decode(sp.csr_matrix(noise + noise.T), Form(norm, layers), 1e-9)
            assert not got.consistent and not got.certified and not got.edges.size


@pytest.mark.fast("mean", "aug-rwalk")
@pytest.mark.parametrize("norm", ["mean", "sum", "aug-rwalk"])
def test_mixed_powers_are_certified_only_where_no_other_direction_fits(norm):
    """P a + P^2 b: a tenth of all graphs of five nodes; pentagons share their answers with their pentagrams."""
    check_mixes(norm, range(0, 1024, 10))


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["mean", "sum", "aug-rwalk"])
def test_mixed_powers_of_all_graphs_of_five_nodes(norm):
    assert len(check_mixes(norm, range(1024))) == 12


def check_mixes(norm, masks):
    form, a, b = Form(norm, 2, own=True), (1.3, 0.4), (-0.2, 0.9)
    refused = []
    for mask in masks:
        g = graph(mask, 5)
        p = form.matrix(matrix(g, 5))
        first, second = ((p * a[k] + p @ p * b[k]).tocsr() for k in (0, 1))
        got = decode_mix(first, second, form, ERROR)
        assert got.consistent
        if got.certified:
            assert pairs(got.edges) == g
        else:
            refused.append(g)
            assert pairs(got.edges) <= g <= pairs(got.edges) | pairs(got.open)
    assert all(len(g) == 5 and set(np.bincount(np.array(list(g)).ravel())) == {2} for g in refused)
    return refused


def test_rows_come_back_from_few_measurements_and_no_wrong_row_is_accepted():
    rng = np.random.default_rng(0)
    edges = {tuple(sorted(map(int, rng.choice(200, 2, replace=False)))) for _ in range(260)}
    m = Form("aug", 2).power(matrix(edges, 200))
    for mutual in (True, False):
        rows = Rows(200, 1e-11, mutual)
        while not rows.solved.all():
            z = rng.normal(size=(200, 7))
            rows.add(z, m @ z)
            rows.solve()
            wrong = abs(rows.matrix - m)[rows.solved]
            assert not wrong.nnz or wrong.max() < 1e-8
        assert rows.num_measurements <= 120


@pytest.mark.parametrize("noise", [1e-12, 1e-6, 1e-4])
def test_a_row_is_never_solved_by_accident_however_noisy(noise):
    """Many sets of columns explain few noisy measurements; none may be taken for the row."""
    rng = np.random.default_rng(4)
    edges = {tuple(sorted(map(int, rng.choice(150, 2, replace=False)))) for _ in range(200)}
    m = Form("aug", 2).power(matrix(edges, 150))
    rows = Rows(150, noise, True)
    for _ in range(12):
        z = rng.normal(size=(150, 4))
        rows.add(z, m @ z + noise * rng.uniform(-1, 1, size=z.shape))
        rows.solve()
        wrong = abs(rows.matrix - m)[rows.solved]
        assert not wrong.nnz or wrong.max() < 100 * noise


def test_blurred_rows_are_told_by_the_others():
    """A hub is blurred a thousand times as much as its neighbours: its row comes from theirs, and so do their entries."""
    rng, n = np.random.default_rng(3), 120
    m = np.triu((rng.random((n, n)) < 0.03) * rng.uniform(0.2, 1, (n, n)), 1)
    m[0, 1:60] = 0.01
    m = m + m.T + np.eye(n)
    noise = np.full(n, 1e-6)
    noise[0] = 3e-2
    rows = Rows(n, noise, True, coarse=True)
    design = rng.normal(size=(n, 200))
    rows.add(design, m @ design + noise[:, None] * rng.normal(size=(n, 200)))
    rows.solve()
    assert rows.solved.all() and rows.clear(np.arange(n)).tolist() == list(range(1, n))
    mended = rows.reconciled().toarray()
    assert np.array_equal(mended, mended.T)
    assert np.abs(mended - m)[1:].max() < 1e-5 < np.abs(rows.matrix.toarray() - m)[0].max()
    assert abs(mended[0, 0] - 1) < 5 * noise[0] / np.sqrt(200)


def test_degrees_follow_from_the_leading_eigenvector_of_one_component_only():
    degree = np.array([3, 1, 2, 5, 0, 4])
    linked = degree > 0
    assert np.array_equal(leading_degrees(0.37 * degree, linked, 0), degree)
    assert np.array_equal(leading_degrees(0.37 * (degree + 1), linked, 1), degree + 1)
    assert leading_degrees(np.where(np.arange(6) < 3, 0.37, 0.2) * degree, linked, 0) is None


def test_fresh_measurements_bound_how_far_two_matrices_are_apart():
    rng = np.random.default_rng(0)
    m = Form("first-order", 2).power(matrix(graph(0b1011011101, 5), 5)).toarray()
    for size in (0.0, 1e-9, 1e-4, 1.0):
        wrong = m + size * np.eye(5)[[1]].T @ np.eye(5)[[3]]
        z = rng.random((5, 12))
        factor, apart = checked(wrong, z, 1.7 * m @ z)
        assert factor == pytest.approx(1.7, rel=1.0) and apart >= np.linalg.norm(factor * wrong - 1.7 * m, 2)
        assert apart < 1e3 * (size + 1e-14)


class Linear:
    """A model that answers M Z Q, off by `noise`."""

    def __init__(self, m, q, noise: float) -> None:
        self.m, self.q, self.noise, self.rng = m, q, noise, np.random.default_rng(5)
        self.row_noise = np.full(len(m), noise)

    def normal(self, shape):
        return self.rng.normal(size=shape)

    def ask(self, z):
        return self.m @ z @ self.q + self.noise * self.rng.uniform(-1, 1, (len(z), self.q.shape[1]))


@pytest.mark.parametrize("noise", [1e-14, 1e-9, 1e-7])
@pytest.mark.parametrize(("norm", "layers"), [("aug", 2), ("aug-rwalk", 2), ("first-order", 2), ("aug", 3), ("aug", 1)])
def test_questions_after_the_graph_bound_the_error_of_every_entry(norm, layers, noise):
    rng, n, form = np.random.default_rng(3), 24, Form(norm, layers)
    edges = {(int(u), int(v)) for u, v in rng.integers(0, n, (40, 2)) if u < v} | {(0, 1), (0, 2)}
    a = matrix(edges, n)
    true, mix = naive_power(edges, n, form), rng.normal(size=(3, 3))
    error, drift = fresh_bounds(Linear(true, mix, noise), form, form.power(a), eigenvector(form, a), (mix, np.eye(3)))
    assert noise < error < 1e5 * noise and drift < 1e3 * noise
    tilted = mix @ (np.eye(3) + 1e-6 * rng.normal(size=(3, 3)))  # a mixture that is off must count as error
    far, _ = fresh_bounds(Linear(true, mix, noise), form, form.power(a), eigenvector(form, a), (tilted, np.eye(3)))
    assert far > 1e-7
    other = matrix(edges ^ {(0, 3)}, n)
    wrong = fresh_bounds(Linear(true, mix, noise), form, form.power(other), eigenvector(form, other), (mix, np.eye(3)))
    assert wrong[0] >= np.abs(form.power(other).toarray() - true).max()


def test_nonsense_forms_are_refused():
    with pytest.raises(InputError, match="aug"):
        Form("augmented", 2)
    with pytest.raises(InputError, match="layers"):
        Form("aug", 0)
