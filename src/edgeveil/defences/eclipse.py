"""Eclipse: a GNN on a low-rank graph with noisy singular values (Tang et al., PoPETs 2024). Its claim is refuted.

The adjacency matrix is cut to its `rank` largest singular values; Gaussian noise is added to these and nothing else.
One undirected edge moves the singular values by at most the root of 2 in L2 (Mirsky: no more than the matrix itself in
Frobenius norm), so the values alone would be private. But the singular vectors are those of the private graph, exact:
they span one space for a graph and, in general, another for its neighbour, so what is released on one cannot occur on
the other, whatever the noise. `edgeveil verify eclipse` shows it on five nodes.

This follows the released code as we read it: exact vectors, `rank` noisy values. The classic scale of Gaussian noise,
sqrt(2 ln(1.25/delta)) sensitivity / epsilon, is proved for epsilon below 1 only and used at any. What answers is the
product without its negative entries and its diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.defences.defence import DEFENCES, Defence, Faces, claim_of, cut_matrix, train_on
from edgeveil.defences.job import Job
from edgeveil.errors import InputError, TooLarge
from edgeveil.graph.graph import Graph
from edgeveil.privacy.budget import DELTA, check_delta, check_epsilon
from edgeveil.privacy.experiments import Claim, Effort, Experiment, Neighbours, Views
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee, Status
from edgeveil.privacy.noise import noise_for
from edgeveil.release.release import Release
from edgeveil.seeds import Seed
from edgeveil.values import is_whole

__all__ = ["Eclipse", "Spectrum"]

Float = NDArray[np.float64]
GRID = 1024  # steps per unit of a singular value
MOST_NODES = 4_000  # the product is stored entry by entry
SMALL = 400  # nodes up to which all singular values are computed
DIGITS = 6  # of singular vectors that the auditor compares
WHY_REFUTED = (
    "Noise is added to the singular values alone; the singular vectors are those of the private graph, so an output of "
    "one graph is in general impossible on its neighbour"
)


class Spectrum(NamedTuple):
    """What is published: exact vectors [n, r], signed, and noisy values [r]."""

    vectors: Float
    signs: Float
    values: Float

    def graph(self) -> sp.csr_matrix:
        """Their product without negative entries and the diagonal."""
        dense = (self.vectors * (self.signs * self.values)) @ self.vectors.T
        np.fill_diagonal(dense, 0.0)
        return sp.csr_matrix(np.maximum(dense, 0.0))


@DEFENCES.register("eclipse")
@dataclass(frozen=True, kw_only=True)
class Eclipse(Defence):
    """Gaussian noise on the largest singular values of the adjacency matrix; the singular vectors stay as they are."""

    epsilon: float | None = None
    """What the paper claims for one edge, at `delta`; it does not hold."""
    delta: float = DELTA
    """The delta of that claim."""
    rank: int = 20
    """How many singular values are kept."""

    status: ClassVar[Status] = "refuted"
    reference: ClassVar[str] = "Tang et al., Edge Private GNNs with Singular Value Perturbation, PoPETs 2024"
    faces: ClassVar[Faces] = {"eclipse": ("Eclipse", None)}

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if not is_whole(self.rank) or self.rank < 1:
            raise InputError(f"rank of eclipse must be a whole number >= 1, got {self.rank!r}")

    def check_size(self, graph: Graph) -> None:
        """By the nodes alone."""
        if graph.num_nodes > MOST_NODES:
            raise TooLarge(
                f"eclipse stores a value for each pair of nodes, at most {MOST_NODES:,} nodes; {graph.name} has "
                f"{graph.num_nodes:,}. Its claim is refuted anyway: use veil-counts or lpgnet"
            )

    @property
    def scale(self) -> Fraction:
        """Standard deviation of the noise, in steps of the grid."""
        classic = math.sqrt(2) * math.sqrt(2 * math.log(1.25 / self.delta)) / check_epsilon(self.epsilon)
        return Fraction(GRID * classic)

    def spectrum(self, graph: Graph, seed: Seed = None) -> Spectrum:
        """All that a release reads of private edges; `experiments` run this very function."""
        vectors, signed = _largest(graph, self.rank)
        noise = noise_for(seed, "eclipse").discrete_gaussian(self.scale, len(signed)) / GRID
        return Spectrum(vectors, np.sign(signed), np.abs(signed) + noise)

    def release(self, job: Job) -> Release:
        """Train on the noisy product."""
        for graph in (job.graph, job.inference):
            self.check_size(graph)
        answer = self.spectrum(job.inference, job.noise_seed("eclipse", "inference")).graph()
        train = answer
        if job.separate:
            train = self.spectrum(job.graph, job.noise_seed("eclipse", "training")).graph()
        elif job.setting == "inductive-evolving":
            train = cut_matrix(answer, job.train_mask)
        return train_on(self, job, train, answer, self.mechanism_guarantee(job.seed))

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """No promise; the paper's figure is kept as claimed."""
        return Guarantee(
            status="refuted", claimed_epsilon=check_epsilon(self.epsilon), reason=WHY_REFUTED,
            randomness=SECURE if seed is None else SEEDED, reference=self.reference,
        )  # fmt: skip

    def audit_claim(self) -> Claim:
        """The paper's epsilon and delta."""
        return claim_of(self, self.mechanism_guarantee())._replace(delta=self.delta)

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """A triangle with a tail of one or of two nodes: whose singular vectors are shown?"""
        graphs = [Graph.from_edges(np.array(e).T, num_nodes=5) for e in (_TRIANGLE, [*_TRIANGLE, (3, 4)])]
        own = [_shown(_largest(graph, self.rank)[0]) for graph in graphs]
        rngs = [effort.rng("noise", side) for side in (0, 1)]

        def sample(side: int, count: int) -> Views:
            seeds = [None if effort.secure else int(rngs[side].integers(2**62)) for _ in range(count)]
            return {"output": [_shown(self.spectrum(graphs[side], seed).vectors) for seed in seeds]}

        def reachable(side: int, code: Hashable) -> bool:
            return code == own[side]

        return [Neighbours("singular vectors, a triangle with a tail, one edge more or less", sample, reachable)]


_TRIANGLE = [(0, 1), (1, 2), (0, 2), (2, 3)]


def _largest(graph: Graph, rank: int) -> tuple[Float, Float]:
    """Eigenvectors and eigenvalues of the largest modulus: those are the singular ones of a symmetric matrix."""
    n, few = graph.num_nodes, min(rank, graph.num_nodes)
    a = graph.adjacency.astype(np.float64)
    if n <= SMALL or few >= n - 1:
        values, vectors = np.linalg.eigh(a.toarray())
    else:
        values, vectors = sp.linalg.eigsh(a, k=few, which="LM", v0=np.ones(n))
    order = np.argsort(-np.abs(values), kind="stable")[:few]
    top = vectors[:, order]
    first = np.abs(top).argmax(axis=0)
    return top * np.sign(top[first, np.arange(few)]), values[order]


def _shown(vectors: Float) -> tuple[float, ...]:
    """The leading vector to a few digits: no noise has touched it."""
    return tuple(np.round(vectors[:, 0], DIGITS).tolist())
