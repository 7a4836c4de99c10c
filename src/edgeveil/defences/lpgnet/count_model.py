"""Noisy degree vectors read as what they are: true counts seen through noise whose law is known.

A node of class c and rate r has Poisson(r H[c, k]) neighbours in cluster k, where row c of H, the class mixing, sums
to 1; the release adds Laplace or Gaussian noise to each count. Rates (how many neighbours a node has) follow an
unknown mixture over a grid. H and the mixture are fitted by expectation maximisation on the noisy counts and the
classifier's probabilities; the result is log P(noisy counts | class) for every node. No further edge is read, so
nothing is spent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.lpgnet.degree_vectors import DegreeNoise, NoiseLaw

__all__ = ["CountModel", "fit_count_model"]

Float = NDArray[np.float64]
RATES = 10
GRID = 8  # continuous noise is read on a grid of 1/8
_SMALL = 1e-300


@dataclass(frozen=True)
class CountModel:
    """A fitted reading: class mixing H [C, K], grid of rates and their weights, and the noise law."""

    mixing: Float
    rates: Float
    weights: Float
    noise: DegreeNoise

    def log_likelihood(self, vectors: Any) -> Float:
        """log P(noisy counts | class), [n, C]."""
        joint = self._joint(_Cells.of(vectors, self.noise))[0]
        return _logsumexp(joint + np.log(np.maximum(self.weights, _SMALL))[None, :, None], axis=1)

    def with_rates_of(self, vectors: Any, class_probabilities: Float, rounds: int = 5) -> CountModel:
        """The same class mixing with the rate mixture of another graph's vectors."""
        model = replace(self, rates=_rate_grid(np.asarray(vectors)))
        return _expectation_maximisation(
            model, _Cells.of(vectors, self.noise), class_probabilities, rounds, mixing=False
        )

    def _joint(self, cells: _Cells) -> tuple[Float, Float]:
        """log P(counts | rate, class) [n, R, C] and the expected true counts [R, C, K, cell values]."""
        rate = self.rates[:, None, None] * self.mixing[None]  # [R, C, K]
        true = np.arange(cells.largest + 1)
        log_pmf = true * np.log(np.maximum(rate, _SMALL))[..., None] - rate[..., None] - _log_factorial(cells.largest)
        pmf = np.exp(log_pmf)
        seen = pmf @ cells.law
        expected = (pmf * true) @ cells.law / np.maximum(seen, _SMALL)
        log_seen = np.log(np.maximum(seen, _SMALL))
        out = np.zeros((cells.index.shape[0], *rate.shape[:2]))
        for k in range(cells.index.shape[1]):
            out += np.moveaxis(log_seen[:, :, k, cells.index[:, k]], -1, 0)
        return out, expected


@dataclass(frozen=True)
class _Cells:
    """Distinct noisy values, where each cell of the vectors finds its own, and P(value | true count)."""

    index: NDArray[np.int64]  # [n, K]
    law: Float  # [largest + 1, values]
    largest: int

    @classmethod
    def of(cls, vectors: Any, noise: DegreeNoise) -> _Cells:
        x = np.asarray(vectors, np.float64)
        steps = GRID if noise.law == "continuous" and noise.scale else 1
        values, index = np.unique(np.rint(x * steps), return_inverse=True)
        values = values / steps
        largest = int(min(max(values.max(initial=0), 0) + math.ceil(6 * noise.scale), 4000))
        gap = np.abs(values[None, :] - np.arange(largest + 1)[:, None])
        law = (gap == 0).astype(np.float64) if noise.scale == 0 else np.exp(-_loss(gap / noise.scale, noise.law))
        return cls(index.reshape(x.shape).astype(np.int64), law, largest)


def _loss(gap: Float, law: NoiseLaw) -> Float:
    """-log of the noise's mass, up to a constant, at a distance in units of its scale."""
    return gap**2 / 2 if law == "gaussian" else gap


def fit_count_model(
    vectors: Any, class_probabilities: Float, noise: DegreeNoise, *, rounds: int = 12, smoothing: float = 1.0
) -> CountModel:
    """Fit class mixing and rates; `class_probabilities` [n, C] are the classifier's, one-hot where a label is known.

    The start is the moment estimate of the mixing, which is unbiased because the noise has mean zero, so it is right
    for heterophilous graphs as well. `smoothing` neighbours per class are spread evenly over the clusters.
    """
    x = np.asarray(vectors, np.float64)
    moments = np.maximum(class_probabilities.T @ x, 0.0) + smoothing
    mixing = moments / moments.sum(axis=1, keepdims=True)
    start = CountModel(mixing, _rate_grid(x), np.full(RATES, 1.0 / RATES), noise)
    return _expectation_maximisation(start, _Cells.of(x, noise), class_probabilities, rounds, smoothing=smoothing)


def _expectation_maximisation(
    model: CountModel, cells: _Cells, prior: Float, rounds: int, *, mixing: bool = True, smoothing: float = 1.0
) -> CountModel:
    log_prior = np.log(np.maximum(prior, 1e-12))
    for _ in range(rounds):
        joint, expected = model._joint(cells)
        joint += np.log(np.maximum(model.weights, _SMALL))[None, :, None] + log_prior[:, None, :]
        share = np.exp(joint - _logsumexp(joint.reshape(len(joint), -1), axis=1)[:, None, None])
        weights = share.sum(axis=(0, 2)) + 1e-6
        model = replace(model, weights=weights / weights.sum())
        if mixing:
            counts = np.full_like(model.mixing, smoothing / model.mixing.shape[1])
            for k in range(counts.shape[1]):
                found = np.moveaxis(expected[:, :, k, cells.index[:, k]], -1, 0)
                counts[:, k] += (share * found).sum(axis=(0, 1))
            model = replace(model, mixing=counts / counts.sum(axis=1, keepdims=True))
    return model


def _rate_grid(x: Float) -> Float:
    """Geometric rates from half a neighbour to the largest plausible degree, judged by the noisy totals alone."""
    top = float(np.quantile(x.sum(axis=1), 0.999)) if len(x) else 1.0
    return np.geomspace(0.5, max(top, 4.0), RATES)


def _log_factorial(largest: int) -> Float:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, largest + 1)))])


def _logsumexp(a: Float, axis: int) -> Float:
    top = a.max(axis=axis, keepdims=True)
    return np.asarray(np.squeeze(top, axis) + np.log(np.exp(a - top).sum(axis=axis)), np.float64)
