"""Targets: counting, refusing nonsense, coarse answers, transcripts that survive a crash."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeveil.attacks.run_attack import attack
from edgeveil.errors import InputError, StorageError, TargetError, UnknownNameError
from edgeveil.release.target import AttackerView, Target, replace_rows
from edgeveil.release.transcript import RecordedTarget, query_key

N = 6
P = (np.eye(N) + np.roll(np.eye(N), 1, 0) + np.roll(np.eye(N), -1, 0)) / 3
X = np.random.default_rng(0).random((N, 4))
W = np.random.default_rng(1).normal(size=(4, 3))


def model(x):
    return P @ (x @ W)


def predict(features=None, nodes=None, induced=False):
    if features is None:
        return model(X) if nodes is None else model(X)[nodes]
    return model(features if nodes is None else replace_rows(X, nodes, features))


release = SimpleNamespace(num_nodes=N, predict=predict, multilabel=False)


def test_counts_queries_and_rows():
    t = Target.from_callable(model, features=X)
    t.query()
    t.query(nodes=[1, 2])
    t.query(features=2 * X[[3]], nodes=[3])
    assert (t.queries, t.rows) == (3, N + 2 + N)


def test_replaced_rows_reach_the_model_in_both_callable_styles():
    a = Target.from_callable(model, features=X).query(features=2 * X[[3]], nodes=[3])
    b = Target.from_callable(predict, N).query(features=2 * X[[3]], nodes=[3])
    c = Target.from_callable(lambda x: model(x.toarray()), features=sp.csr_matrix(X)).query(2 * X[[3]], [3])
    assert np.allclose(a, b) and np.allclose(a, c)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x: np.full((N, 3), np.nan), "row 0 is NaN"),
        (lambda x: np.zeros((N - 1, 3)), r"shape \[6, classes\], got \[5, 3\]"),
        (lambda x: np.zeros(N), "shape"),
        (lambda x: "no", "<U2"),
        (lambda x: [[1.0], [1.0, 2.0]], "list|array"),
        (lambda x: 1 / 0, "ZeroDivisionError"),
        (lambda x: (_ for _ in ()).throw(ConnectionError("gone")), "ConnectionError: gone"),
    ],
)
def test_nonsense_is_named_and_not_counted(answer, words):
    t = Target.from_callable(answer, features=X)
    with pytest.raises(TargetError, match=words):
        t.query()
    assert t.queries == 0


def test_width_may_not_change_between_queries():
    width = iter((3, 2))
    t = Target.from_callable(lambda x: np.zeros((N, next(width))), features=X)
    t.query()
    with pytest.raises(TargetError, match=r"\[6, 3\], got \[6, 2\]"):
        t.query()


def test_silence_becomes_an_error():
    t = Target.from_callable(lambda x: time.sleep(5), features=X, timeout=0.05)
    with pytest.raises(TargetError, match=r"no answer within 0\.05 s"):
        t.query()
    ok = Target.from_callable(model, features=X, timeout=5)
    assert ok.query().shape == (N, 3)
    bad = Target.from_callable(lambda x: 1 / 0, features=X, timeout=5)
    with pytest.raises(TargetError, match="ZeroDivisionError"):
        bad.query()


def test_questions_about_unknown_nodes_are_refused():
    t = Target.from_callable(model, features=X)
    for nodes, words in (([], "non-empty"), ([9], "unknown node 9"), ([1, 1], "repeated"), ([0.5], "node numbers")):
        with pytest.raises(InputError, match=words):
            t.query(nodes=nodes)
    with pytest.raises(InputError, match="induced"):
        t.query(induced=True)
    with pytest.raises(TargetError, match="induced subgraph"):
        t.query(nodes=[0], induced=True)


def test_local_answers_as_coarsely_as_asked():
    logits = Target.local(release).query()
    soft = Target.local(release, "probabilities").query()
    assert np.allclose(soft, np.exp(logits) / np.exp(logits).sum(1, keepdims=True))
    rounded = Target.local(release, "probabilities", decimals=2).query()
    assert np.array_equal(rounded, np.round(soft, 2))
    assert np.array_equal(Target.local(release, "labels").query(), logits.argmax(1))
    for kw in ({"answer": "scores"}, {"dtype": "float16"}):
        with pytest.raises(UnknownNameError):
            Target.local(release, **kw)


def test_exact_influence_only_through_full_answers():
    white = SimpleNamespace(**vars(release), influence=lambda nodes: sp.csr_matrix((len(nodes), len(nodes))))
    assert Target.local(white).influence is not None
    assert Target.local(white, "probabilities").influence is None
    assert Target.local(white, decimals=3).influence is None
    assert Target.local(release).influence is None


def test_view_finds_pairs_and_rows():
    view = AttackerView(nodes=np.array([4, 1, 3]), features=sp.csr_matrix(X[[4, 1, 3]]), pairs=np.array([[1], [4]]))
    assert [int(p[0]) for p in view.pair_positions()] == [1, 0]
    assert np.allclose(view.rows([2]), X[[3]])
    assert [list(p) for p in AttackerView(nodes=np.arange(3)).pair_positions()] == [[0, 0, 1], [1, 2, 2]]
    with pytest.raises(InputError, match="features"):
        AttackerView(nodes=np.arange(3)).rows([0])


# -- transcripts ------------------------------------------------------------------------------------------------------


class Unreliable:
    """Fails for good at the given call."""

    def __init__(self, fail_at=None):
        self.calls = 0
        self.fail_at = fail_at

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.fail_at:
            raise TimeoutError("upstream timed out")
        return model(x)


def test_an_interrupted_attack_resumes_without_paying_twice(tmp_path):
    path = tmp_path / "t.bin"
    first = Unreliable(fail_at=4)
    with pytest.raises(TargetError, match="timed out"):
        attack(RecordedTarget(Target.from_callable(first, features=X), path), "linkteller", nodes=range(N), features=X)
    second = Unreliable()
    target = RecordedTarget(Target.from_callable(second, features=X), path)
    res = attack(target, "linkteller", nodes=range(N), features=X)
    assert second.calls == target.paid == N + 1 - 3
    assert res.queries == N + 1
    plain = attack(Target.from_callable(model, features=X), "linkteller", nodes=range(N))
    assert np.array_equal(res.scores, plain.scores)


@pytest.mark.parametrize("trouble", ["silence", "nan", "shape"])
def test_trouble_half_way_costs_no_paid_answer(tmp_path, trouble):
    """A service that falls silent (or answers nonsense) at the fourth question, and one that works again."""
    path = tmp_path / "t.bin"
    calls = []

    def moody(x):
        calls.append(1)
        if len(calls) < 4:
            return model(x)
        if trouble == "silence":
            time.sleep(2)
        return model(x)[:-1] if trouble == "shape" else np.full((N, 3), np.nan)

    broken = RecordedTarget(Target.from_callable(moody, features=X, timeout=0.3), path)
    with pytest.raises(TargetError, match=r"no answer within|NaN|shape"):
        attack(broken, "linkteller", nodes=range(N))
    assert broken.paid == broken.queries == 3
    mended = RecordedTarget(Target.from_callable(model, features=X, timeout=5), path)
    res = attack(mended, "linkteller", nodes=range(N))
    assert mended.paid == N + 1 - 3 and res.queries == N + 1
    assert np.array_equal(res.scores, attack(Target.from_callable(model, features=X), nodes=range(N)).scores)


def test_replay_needs_no_target(tmp_path):
    path = tmp_path / "t.bin"
    live = attack(RecordedTarget(Target.from_callable(model, features=X), path), nodes=range(N), features=X)
    again = RecordedTarget(None, path)
    assert np.array_equal(attack(again, nodes=range(N), features=X).scores, live.scores)
    with pytest.raises(TargetError, match="not in the transcript"):
        again.query(nodes=[0])


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_record_cut_short_is_dropped(tmp_path, cut):
    path = tmp_path / "t.bin"
    t = RecordedTarget(Target.from_callable(model, features=X), path)
    t.query()
    t.query(nodes=[1])
    path.write_bytes(path.read_bytes()[:-cut])
    again = RecordedTarget(Target.from_callable(model, features=X), path)
    again.query()
    assert again.paid == 0
    again.query(nodes=[1])
    assert again.paid == 1
    assert RecordedTarget(None, path).query(nodes=[1]).shape == (1, 3)


def test_repeated_questions_to_a_random_model_keep_their_own_answers(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "t.bin"
    t = RecordedTarget(Target.from_callable(lambda x: rng.random((N, 3)), features=X), path)
    answers = [t.query() for _ in range(3)]
    again = RecordedTarget(None, path)
    assert all(np.array_equal(again.query(), a) for a in answers)


def test_transcripts_of_other_targets_and_other_files_are_refused(tmp_path):
    path = tmp_path / "t.bin"
    RecordedTarget(Target.from_callable(model, features=X), path)
    with pytest.raises(StorageError, match="num_nodes=6"):
        RecordedTarget(Target.from_callable(model, 9), path)
    (tmp_path / "x").write_bytes(b"hello\n")
    with pytest.raises(StorageError, match="not a transcript"):
        RecordedTarget(None, tmp_path / "x")
    with pytest.raises(StorageError, match="no transcript"):
        RecordedTarget(None, tmp_path / "absent")
    with pytest.raises(StorageError, match="cannot write"):
        t = RecordedTarget(Target.from_callable(model, features=X), path)
        path.unlink()
        path.mkdir()
        t.query()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4), st.integers(0, 5), st.booleans())
def test_keys_tell_questions_apart(row, node, induced):
    base = query_key(np.array([row]), np.array([node]), induced, 0)
    assert base == query_key(np.array([row]), np.array([node]), induced, 0)
    changed = np.array([row])
    changed[0, 0] = np.nextafter(changed[0, 0], np.inf)
    others = {
        query_key(changed, np.array([node]), induced, 0),
        query_key(np.array([row]), np.array([node + 1]), induced, 0),
        query_key(np.array([row]), np.array([node]), not induced, 0),
        query_key(np.array([row]), np.array([node]), induced, 1),
        query_key(None, np.array([node]), induced, 0),
    }
    assert base not in others and len(others) == 5
