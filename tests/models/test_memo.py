"""A remembered training equals a repeated one, and only equal trainings are remembered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from edgeveil.models.assemble import build, state_arrays
from edgeveil.models.drop import Drop
from edgeveil.models.memo import Memo, remembering
from edgeveil.models.settings import TrainSpec
from edgeveil.models.spec import ModelSpec
from edgeveil.models.train import fit

RNG = np.random.default_rng(0)
N = 40
X = sp.csr_matrix((RNG.random((N, 12)) < 0.3).astype(np.float32))
A = sp.csr_matrix(np.triu(RNG.random((N, N)) < 0.1, 1).astype(np.float32))
A = (A + A.T).tocsr()
Y = np.arange(N) % 3
ALL = np.ones(N, dtype=bool)
TRAIN = TrainSpec(epochs=5)


def train(x: sp.csr_matrix = X, spec: TrainSpec = TRAIN, seed: int = 0, a: sp.csr_matrix = A) -> dict[str, np.ndarray]:
    model = build(ModelSpec(hidden=4), 12, 3, seed=1)
    fit(model, x, model.prepare(a), Y, ALL, None, spec, seed=seed)
    return state_arrays(model)


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(a[k], b[k]) for k in a)


def test_a_remembered_training_equals_a_repeated_one() -> None:
    plain = train()
    with remembering(Memo()) as memo:
        first, second = train(), train()
    assert (memo.asked, memo.hits) == (2, 1)
    assert same(plain, first) and same(plain, second)


def test_other_data_settings_or_seed_are_trained_anew() -> None:
    moved = X[:, np.roll(np.arange(12), 1)].tocsr()  # the same values in other columns
    with remembering(Memo()) as memo:
        train()
        train(moved)
        train(spec=replace(TRAIN, epochs=6))
        train(seed=1)
        train(a=0.5 * A)  # the same edges with other weights
    assert memo.hits == 0


def test_the_limit_forgets_the_oldest() -> None:
    with remembering(Memo(limit=1)) as memo:
        train(seed=0)
        train(seed=1)
        train(seed=1)
        train(seed=0)
    assert memo.hits == 1


def noisy(keep: str, steps: int = 1, a: sp.csr_matrix = A) -> dict[str, np.ndarray]:
    """A training on noisy labels."""
    model = build(ModelSpec(hidden=4, dropout=0.5), 12, 3, seed=1)
    structure = model.prepare(a)
    half = np.arange(N) < N // 2
    drop = Drop(Y, half, ~half, structure, classes=3, epsilon=2.0, steps=steps)
    spec = replace(TRAIN, epochs=8, lr=0.1, keep=keep)
    fit(model, X, structure, Y, half, ~half, spec, seed=0, objective=drop)
    return state_arrays(model)


def test_one_training_on_noisy_labels_gives_the_last_and_the_reported_epoch() -> None:
    plain = {keep: noisy(keep) for keep in ("last", "reported")}
    assert not same(plain["last"], plain["reported"])
    with remembering(Memo()) as memo:
        found = {keep: noisy(keep) for keep in ("reported", "last")}
        assert (memo.asked, memo.hits) == (2, 1)
        noisy("last", steps=2)
        noisy("last", a=0.5 * A)
    assert memo.hits == 1, "another propagation is another training"
    assert all(same(plain[keep], found[keep]) for keep in plain)
