"""Few signed queries instead of one per node: recovery, budget, pruning, coarse answers."""

from __future__ import annotations

import numpy as np
import pytest

import edgeveil.metrics as metrics
from edgeveil.attacks.linkteller_grouped import LinkTellerGrouped
from edgeveil.attacks.probing import resolution
from edgeveil.attacks.recovery import group_omp
from edgeveil.attacks.run_attack import attack
from edgeveil.errors import InputError
from edgeveil.release.target import Target


def auc(model, res):
    return metrics.ranking(res.scores, model.truth(res.pairs))["auc"]


def precision(model, res):
    truth = model.truth(res.pairs)
    return metrics.at_belief(res.scores, truth, truth.mean())["precision"]


@pytest.fixture
def sparse(make_gcn):
    return make_gcn(n=150, density=0.015, features=20, seed=4)


@pytest.mark.parametrize("queries", [1, 7, 40])
def test_budget_is_kept(sparse, queries):
    target = Target.from_callable(sparse, features=sparse.x)
    res = attack(target, "linkteller-grouped", nodes=np.arange(100), queries=queries)
    assert res.queries == target.queries <= queries + 1
    assert res.pairs.shape == (2, 4950)


def test_two_fifths_of_the_queries_gives_the_full_answer(sparse):
    full = attack(Target.from_callable(sparse, features=sparse.x), "linkteller", nodes=np.arange(150))
    few = attack(
        Target.from_callable(sparse, features=sparse.x), "linkteller-grouped", nodes=np.arange(150), queries=50
    )
    assert abs(auc(sparse, full) - auc(sparse, few)) < 0.005
    assert abs(precision(sparse, full) - precision(sparse, few)) < 0.02
    assert np.corrcoef(full.scores, few.scores)[0, 1] > 0.99


def test_more_queries_help(sparse):
    nodes = np.arange(150)
    by_budget = [
        precision(
            sparse, attack(Target.from_callable(sparse, features=sparse.x), "linkteller-grouped", nodes, queries=q)
        )
        for q in (6, 20, 60)
    ]
    assert by_budget[0] < by_budget[1] <= by_budget[2] + 0.02


def test_nothing_undecided_ends_the_attack_early(make_gcn):
    """A one-layer model on a very sparse graph is explained in the first round."""
    model = make_gcn(n=120, density=0.008, layers=1)
    res = attack(Target.from_callable(model, features=model.x), "linkteller-grouped", nodes=np.arange(120), queries=80)
    assert res.queries == 1 + 56
    assert res.params["explained"] == 1.0
    assert np.array_equal(res.scores > 1e-6, model.truth(res.pairs))


def test_exact_zeros_exclude_pairs(make_gcn):
    """Unconnected nodes are told apart exactly, not approximately."""
    model = make_gcn(n=120, density=0.008, layers=1)
    res = attack(Target.from_callable(model, features=model.x), "linkteller-grouped", nodes=np.arange(120), queries=80)
    assert (res.scores[~model.truth(res.pairs)] == 0).mean() > 0.9


def test_enough_budget_is_plain_linkteller(sparse):
    a = attack(Target.from_callable(sparse, features=sparse.x), "linkteller-grouped", nodes=np.arange(30), queries=30)
    b = attack(Target.from_callable(sparse, features=sparse.x), "linkteller", nodes=np.arange(30))
    assert np.array_equal(a.scores, b.scores) and a.queries == 31


def test_default_budget_is_a_fifth_of_the_nodes(sparse):
    res = attack(Target.from_callable(sparse, features=sparse.x), "linkteller-grouped", nodes=np.arange(150))
    assert res.queries <= 31 and res.params["budget"] == 30


@pytest.mark.parametrize(
    ("answer", "decimals", "dtype"),
    [
        ("logits", 6, np.float64),
        ("logits", 4, np.float64),
        ("logits", 3, np.float64),
        ("logits", 2, np.float64),
        ("logits", None, np.float32),
        ("probabilities", None, np.float64),
        ("probabilities", 6, np.float64),
        ("probabilities", 4, np.float64),
        ("probabilities", 2, np.float64),
    ],
)
def test_coarse_answers_cost_at_most_two_points_of_auc(sparse, tools, answer, decimals, dtype):
    def coarse(x):
        out = sparse(x, dtype)
        out = tools.softmax(4 * out) if answer == "probabilities" else 4 * out
        return out if decimals is None else np.round(out, decimals)

    make = lambda: Target.from_callable(coarse, features=sparse.x, answer=answer)  # noqa: E731
    full = attack(make(), "linkteller", nodes=np.arange(150))
    few = attack(make(), "linkteller-grouped", nodes=np.arange(150), queries=60)
    assert auc(sparse, few) >= auc(sparse, full) - 0.02


def test_answers_at_a_rounding_stop_are_called_out(sparse, tools):
    """Saturated probabilities, rounded: the result says that the grouped form loses more there than the full one."""
    notes = []
    for sharp in (1, 200):
        target = Target.from_callable(
            lambda x, sharp=sharp: np.round(tools.softmax(sharp * sparse(x)), 3),
            features=sparse.x,
            answer="probabilities",
        )
        notes.append(attack(target, "linkteller-grouped", nodes=np.arange(150), queries=40).notes)
    assert notes[0] == () and "rounding stop" in notes[1][-1]


@pytest.mark.parametrize("decimals", range(2, 7))
def test_resolution_is_read_off_the_answer(decimals):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    assert resolution(np.round(x, decimals)).step == pytest.approx(10.0**-decimals)
    single = np.round(x.astype(np.float32), decimals).astype(np.float64)
    assert resolution(single).step == pytest.approx(10.0**-decimals)
    assert resolution(x).kind == "float64"
    assert resolution(x.astype(np.float32).astype(np.float64)).kind == "float32"


def test_pursuit_recovers_sparse_rows_exactly():
    rng = np.random.default_rng(1)
    truth = np.zeros((30, 80, 2))
    for u in range(30):
        truth[u, rng.choice(80, 6, replace=False)] = rng.normal(size=(6, 2))
    design = rng.choice([-1.0, 0.0, 1.0], (40, 80))
    answers = np.einsum("qv,uvc->uqc", design, truth)
    got = group_omp(answers, design, np.ones((30, 80), bool), np.zeros(30), 20)
    assert got.explained.all()
    assert np.allclose(got.norms, np.linalg.norm(truth, axis=2), atol=1e-8)


def test_pursuit_ignores_answers_that_do_not_count():
    rng = np.random.default_rng(3)
    truth = np.zeros((10, 60, 2))
    for u in range(10):
        truth[u, rng.choice(60, 4, replace=False)] = rng.normal(size=(4, 2))
    design = rng.choice([-1.0, 1.0], (50, 60))
    answers = np.einsum("qv,uvc->uqc", design, truth)
    heard = rng.random((10, 50)) < 0.8
    answers[~heard] = 1e6
    got = group_omp(answers, design, np.ones((10, 60), bool), np.zeros(10), 20, heard)
    assert np.allclose(got.norms, np.linalg.norm(truth, axis=2), atol=1e-7)


def test_pursuit_never_picks_what_is_excluded():
    rng = np.random.default_rng(2)
    design = rng.choice([-1.0, 1.0], (10, 12))
    answers = rng.normal(size=(4, 10, 2))
    closed = rng.random((4, 12)) < 0.5
    got = group_omp(answers, design, ~closed, np.zeros(4), 5)
    assert (got.norms[closed] == 0).all()


@pytest.mark.parametrize("kw", [{"queries": 0}, {"share": 0.0}, {"first": 1.5}, {"queries": 3, "repeats": 5}])
def test_bad_parameters(sparse, kw):
    with pytest.raises(InputError):
        attack(Target.from_callable(sparse, features=sparse.x), "linkteller-grouped", nodes=np.arange(30), **kw)


def test_an_audit_tries_it_where_it_may_tell_something(sparse):
    far, near = Target.from_callable(sparse, features=sparse.x), Target.from_callable(sparse, features=sparse.x)
    near.influence = lambda nodes: None
    tried = {"none": True, "lpgnet-2": False}
    for name, wanted in tried.items():
        near.mechanism = {"name": name, "params": {"epsilon": 1.0}}
        assert (not LinkTellerGrouped().idle(near)) == wanted
    assert not LinkTellerGrouped().idle(far)
