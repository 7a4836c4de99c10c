"""Read-outs over stored counts: inputs as documented, answers row by row, files that answer alike."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.assemble import build
from edgeveil.models.spec import ModelSpec
from edgeveil.release.lpgnet_predictor import CountNoise
from edgeveil.release.predictors import GraphPredictor, Predictor, TabularPredictor, predictor_from_state
from edgeveil.release.readout_predictor import FORMS, ReadoutPredictor, StoredPredictor, readout_inputs

RNG = np.random.default_rng(0)
COUNTS = np.array([[3.0, -1.0], [0.0, 2.0], [-2.0, -1.0]])
X = FeatureMatrix.wrap(RNG.random((3, 4)))
MLP = ModelSpec(name="mlp", hidden=8)


def readout(form: str) -> ReadoutPredictor:
    base = TabularPredictor(MLP, build(MLP, 4, 2, seed=1), 3)
    width = readout_inputs(form, np.zeros((3, 2)), COUNTS, 1.0).shape[1]
    return ReadoutPredictor(base, MLP, build(MLP, width, 2, seed=2), COUNTS, form, 0.7)


def test_noise_below_zero_is_cut_and_shares_of_nothing_are_zero() -> None:
    rows = readout_inputs("shares", np.zeros((3, 2)), COUNTS, 1.0)
    np.testing.assert_allclose(rows[:, 2:], [[np.log(4), 0, 1, 0], [0, np.log(3), 0, 1], [0, 0, 0, 0]])
    np.testing.assert_allclose(np.exp(readout_inputs("calibrated", COUNTS, COUNTS, 0.5)[:, :2]).sum(axis=1), 1.0)
    with pytest.raises(UnknownNameError, match="form of read-out"):
        readout_inputs("square", COUNTS, COUNTS, 1.0)


@pytest.mark.parametrize("form", FORMS)
def test_files_and_subsets_answer_alike(form: str) -> None:
    predictor = readout(form)
    answers = predictor.logits(X)
    again = predictor_from_state("readout", *predictor.state())
    np.testing.assert_array_equal(again.logits(X), answers)
    some = np.array([2, 0])
    np.testing.assert_allclose(predictor.induced(some).logits(X.take(some)), answers[some])
    assert predictor.rowwise and predictor.influence(X, some, some).nnz == 0


def test_all_that_lies_below_a_reading_can_be_seen() -> None:
    """Counts on counts, over a base that keeps a graph: who holds the release has all of them."""
    graph = sp.csr_matrix(np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]]))
    gcn, law = ModelSpec(name="gcn", hidden=8), CountNoise("gaussian", 0.4, clipped=False)
    below: Predictor = GraphPredictor(gcn, build(gcn, 4, 2, seed=1).eval(), graph)
    for seed, counts in enumerate((COUNTS, 2 * COUNTS)):
        below = ReadoutPredictor(below, MLP, build(MLP, 4, 2, seed=seed), counts, "raw", 1.0, law)
    assert below.stored_graph is not None and (below.stored_graph != graph).nnz == 0
    assert [s.counts.max() for s in below.stored_counts(X)] == [3.0, 6.0]
    again = predictor_from_state("readout", *below.state())
    np.testing.assert_array_equal(again.logits(X), below.logits(X))


def test_stored_answers_ignore_features_but_not_their_number() -> None:
    stored = StoredPredictor(COUNTS)
    np.testing.assert_array_equal(stored.logits(X), COUNTS)
    np.testing.assert_array_equal(predictor_from_state("stored", *stored.state()).logits(X), COUNTS)
    with pytest.raises(InputError, match="noisy counts of 3 nodes, not 2"):
        stored.logits(X.take(np.array([0, 1])))
