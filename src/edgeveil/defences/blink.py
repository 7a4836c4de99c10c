"""Blink: every node reports its own noisy neighbour list and degree, a server estimates the graph (Zhu et al., 2023).

Reports (Blink section 4.1). Each node flips every bit of its list with probability 1/(1 + e^a) and adds discrete
Laplace noise of scale 1/d to its degree; the paper's epsilon for one list is a + d. An undirected edge stands in the
lists of both its ends and in both degrees, so it pays twice: `epsilon` here is 2 (a + d).

Estimate (section 4.2). The noisy degrees fit a beta-model, P(edge) = 1/(1 + e^-(b_u + b_v)) (Chatterjee, Diaconis and
Sly 2011), whose probabilities are the prior of a pair; its two reported bits give the posterior by Bayes' rule. Nodes
of equal degree have equal b, so prior and posterior are tables over degrees. All of it is post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.defences.defence import DEFENCES, TUNING_NOTE, Defence, Faces, claim_of, cut_matrix, over_graphs, train_on
from edgeveil.defences.graph_audit import neighbouring_graphs
from edgeveil.defences.job import Job
from edgeveil.defences.trial import trial_job
from edgeveil.errors import InputError, TooLarge, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.graph.memory import available_memory
from edgeveil.graph.upper_triangle import CHUNK
from edgeveil.privacy.budget import Budget, check_epsilon, exact
from edgeveil.privacy.canaries import degree_strata, plant_pairs, synthetic_graph
from edgeveil.privacy.experiments import Claim, Coins, Effort, Experiment, Neighbours, Sight, Views
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee, Status
from edgeveil.privacy.noise import noise_for
from edgeveil.privacy.probability import Probability, logistic
from edgeveil.privacy.skips import successes
from edgeveil.release.release import Release
from edgeveil.seeds import Seed

__all__ = ["KINDS", "Blink", "Reports", "beta_model", "estimate", "posterior_table"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
KINDS = ("hard", "soft", "hybrid")
ENDS = 2  # reports that one undirected edge enters
ALWAYS_FINE = 1 << 27
_BLOCK = 512  # rows that are estimated at a time; a multiple of 8, for bits are packed
_ROUNDS = 300


class Reports(NamedTuple):
    """What the server gets: packed noisy lists (row u holds the bits that u reports) and noisy degrees."""

    bits: NDArray[np.uint8]  # [n, ceil(n / 8)]
    degrees: Int

    def pairs(self, u: Any, v: Any) -> NDArray[np.uint8]:
        """The bit that u reports about v."""
        place = (7 - np.asarray(v) % 8).astype(np.uint8)
        return np.asarray((self.bits[u, np.asarray(v) // 8] >> place) & 1, np.uint8)


class Asked(NamedTuple):
    """Reports about the training and the answering graph (the same object where one graph is both), and the bill."""

    train: Reports
    inference: Reports
    budget: Budget


@DEFENCES.register("blink", presets={f"blink-{kind}": {"kind": kind} for kind in KINDS})
@dataclass(frozen=True, kw_only=True)
class Blink(Defence):
    """kind: "hard" keeps the pairs that are more likely edges than not, "soft" weighs every pair by its probability
    (n^2 weights), "hybrid" weighs the pairs that "hard" keeps. The job's model is trained on the result.
    """

    epsilon: float | None = None
    """What one undirected edge may cost: twice the paper's epsilon, because both ends report it."""
    kind: str = "hard"
    """hard, soft or hybrid."""
    degree_share: float = 0.1
    """Part of epsilon that goes to the degrees."""

    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "Zhu et al., Blink, ACM CCS 2023, sections 4.1-4.3"
    fills: ClassVar[bool] = True
    faces: ClassVar[Faces] = {"blink": ("Blink", None), **{f"blink-{k}": (f"Blink ({k})", None) for k in KINDS}}

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.kind not in KINDS:
            raise UnknownNameError("kind of blink", self.kind, KINDS)
        if not 0 < self.degree_share < 1:
            raise InputError(f"degree_share of blink must lie between 0 and 1, got {self.degree_share!r}")

    @property
    def split(self) -> tuple[Fraction, Fraction]:
        """Epsilon of one list and of one degree: together half of epsilon, to the last digit."""
        one = exact(check_epsilon(self.epsilon)) / ENDS
        degree = one * exact(self.degree_share)
        return one - degree, degree

    @property
    def flip(self) -> Probability:
        """The chance that a bit lies."""
        return logistic(self.split[0])

    def check_size(self, graph: Graph) -> None:
        """Bits of all ordered pairs, and for "soft" a weight for every one of them."""
        n = graph.num_nodes
        need = n * n // 8 + (20 * n * n if self.kind == "soft" else 0)
        free = available_memory() if need > ALWAYS_FINE else None
        if free is not None and need > free:
            remedy = "use kind='hard' or 'hybrid'" if self.kind == "soft" else "use lpgnet or veil-counts"
            raise TooLarge(
                f"Blink ({self.kind}) keeps something for each of {n * n:,} ordered pairs ({need / 1e9:,.1f} GB), but "
                f"{free / 1e9:,.1f} GB are free; {remedy}"
            )

    def release(self, job: Job) -> Release:
        """Collect reports, estimate the graph, train on it."""
        for graph in (job.graph, job.inference):
            self.check_size(graph)
        asked = self.noise_stage(job)
        answer = estimate(asked.inference, float(self.flip), self.kind)
        if job.separate:
            train = estimate(asked.train, float(self.flip), self.kind)
        else:
            train = cut_matrix(answer, job.train_mask) if job.setting == "inductive-evolving" else answer
        return train_on(self, job, train, answer, self._job_guarantee(job, asked.budget))

    def noise_stage(self, job: Job) -> Asked:
        """All that a release reads of private edges; `experiments` run this very function."""
        budget = Budget(exact(check_epsilon(self.epsilon)) * job.times)
        last = self._ask(job, job.inference, "inference graph" if job.separate else "graph", budget)
        train = self._ask(job, job.graph, "training graph", budget) if job.separate else last
        return Asked(train, last, budget)

    def _ask(self, job: Job, graph: Graph, name: str, budget: Budget) -> Reports:
        on = job.edge_set(name) if job.separate else name
        for cost, what in zip(self.split, ("neighbour lists", "degrees"), strict=True):
            budget.spend(ENDS * cost, f"{what}, reported by both ends, {name}", on=on)
        return self.reports(graph, job.noise_seed("blink", name))

    def reports(self, graph: Graph, seed: Seed = None) -> Reports:
        """Every node's noisy list and degree; no seed means secure, exact noise."""
        graph.check_public_nodes()
        n, noise = graph.num_nodes, noise_for(seed)
        bits = np.zeros((n, -(-n // 8)), np.uint8)
        u, v = graph.edge_index
        _flip(bits, np.concatenate([u, v]), np.concatenate([v, u]))
        for places in successes(noise, self.flip, n * (n - 1), CHUNK):
            row, column = np.divmod(places, max(n - 1, 1))
            _flip(bits, row, column + (column >= row))
        return Reports(bits, graph.degrees + noise.discrete_laplace(1 / self.split[1], n))

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """What all reports of one graph promise."""
        epsilon = exact(check_epsilon(self.epsilon))
        return Guarantee(
            status="sound", claimed_epsilon=float(epsilon), randomness=SECURE if seed is None else SEEDED,
            reference=self.reference,
            notes=(
                TUNING_NOTE,
                f"Blink states epsilon for one node's own list, {float(epsilon / ENDS):g} here; both ends of an edge "
                "report it, so it pays twice",
                "No server needs to be trusted: the noise is added by every node before it reports",
            ),
        )  # fmt: skip

    def _job_guarantee(self, job: Job, budget: Budget) -> Guarantee:
        sharing = over_graphs(job) if job.separate else "training and every answer are post-processing of the reports"
        return replace(
            self.mechanism_guarantee(job.seed), claimed_epsilon=float(budget.cap), charges=budget.charges,
            composition=f"lists and degrees of both ends add up; {sharing}",
        )  # fmt: skip

    def audit_claim(self) -> Claim:
        """The epsilon of the reports about one graph."""
        return claim_of(self, self.mechanism_guarantee())

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """Planted pairs read off the two reported bits, and tiny neighbours read off everything that is reported."""
        return [
            _planted(self, effort, "planted pairs, one graph", separate=False),
            _planted(self, effort, "planted pairs beside another graph", separate=True),
            *(_tiny(self, effort, *case) for case in neighbouring_graphs()[1:]),
        ]


def _flip(bits: NDArray[np.uint8], row: Int, column: Int) -> None:
    """Change the bit of every place; places of one call are all different."""
    width = bits.shape[1]
    cells, at = np.unique(row * width + column // 8, return_inverse=True)
    masks = (1 << (7 - column % 8)).astype(np.uint8)
    joined = np.bincount(at, masks, len(cells)).astype(np.uint8)
    bits.reshape(-1)[cells] ^= joined


# -- the server's estimate ---------------------------------------------------------------------------------------------


def beta_model(degrees: Int, counts: Int, n: int) -> Float:
    """b of every degree value by the fixed point of Chatterjee, Diaconis and Sly 2011, Theorem 1.5.

    `counts` says how many of n nodes have that value; degrees lie in 1..n-2, where an estimate exists.
    """
    want = np.clip(degrees, 1, max(n - 2, 1)).astype(np.float64)
    b = np.log(want) - 0.5 * np.log(max(float(want @ counts), 1.0))
    for _ in range(_ROUNDS):
        share = 1 / (np.exp(-b)[None, :] + np.exp(b)[:, None])  # [i, j]: 1 / (e^-b_j + e^b_i)
        total = share @ counts - np.diagonal(share)
        fresh = np.log(want) - np.log(np.maximum(total, 1e-300))
        done = np.abs(fresh - b).max() < 1e-8
        b = np.clip(fresh, -40.0, 40.0)
        if done:
            break
    return np.asarray(b, np.float64)


def posterior_table(prior: Float, flip: float) -> Float:
    """P(edge | s of the two reported bits are 1), s = 0, 1, 2, for every prior: [3, *prior.shape]."""
    ones = np.arange(3).reshape(3, *[1] * prior.ndim)
    odds = (1 - flip) / flip
    gain = odds ** (2.0 * (ones - 1))  # P(bits | edge) / P(bits | none): odds^2, 1, odds^-2
    out: Float = prior * gain / (prior * gain + 1 - prior)
    return out


def estimate(reports: Reports, flip: float, kind: str) -> sp.csr_matrix:
    """The server's graph: symmetric CSR of 1s (hard) or probabilities (soft, hybrid)."""
    n = len(reports.degrees)
    shown = np.clip(reports.degrees, 1, max(n - 2, 1))
    values, group, counts = np.unique(shown, return_inverse=True, return_counts=True)
    b = beta_model(values, counts, n)
    table = posterior_table(1 / (1 + np.exp(-(b[:, None] + b[None, :]))), flip).astype(np.float32)
    parts = list(_kept(reports.bits, n, table, group, 0.0 if kind == "soft" else 0.5))
    row, column, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    upper = sp.csr_matrix((np.ones_like(weight) if kind == "hard" else weight, (row, column)), shape=(n, n))
    return (upper + upper.T).tocsr()


def _kept(
    bits: NDArray[np.uint8], n: int, table: NDArray[np.float32], group: Int, least: float
) -> Iterator[tuple[Int, Int, NDArray[np.float32]]]:
    """Pairs u < v whose probability exceeds `least`, block by block of rows."""
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        mine = np.unpackbits(bits[start:stop], axis=1, count=n)
        theirs = np.unpackbits(bits[:, start // 8 : -(-stop // 8)], axis=1, count=stop - start).T
        weight = table[mine + theirs, group[start:stop, None], group[None, :]]
        row, column = np.nonzero((weight > least) & (np.arange(n)[None, :] > np.arange(start, stop)[:, None]))
        yield row + start, column, weight[row, column]


# -- audits ------------------------------------------------------------------------------------------------------------


def _planted(blink: Blink, effort: Effort, name: str, *, separate: bool) -> Coins:
    """Every other edge is known; beside another graph, its reports are known too and must say nothing."""

    def see() -> Sight:
        n = max(200, int(2 * effort.canaries**0.5) * 2)
        known = synthetic_graph(n, 3 * n)
        planted = plant_pairs(known, effort.canaries, effort.rng("coins", name))
        other = known if separate else None
        setting: Any = "inductive-different" if separate else "transductive"
        asked = blink.noise_stage(trial_job(planted.graph, effort.noise_seed(name), inference=other, setting=setting))
        u, v = planted.pairs
        both = (asked.train.pairs(u, v) + asked.train.pairs(v, u)).astype(np.int64)
        views = {"two reported bits": both}
        if separate:
            lies = (asked.inference.pairs(u, v) + asked.inference.pairs(v, u)).astype(np.int64)
            views["bits beside the lies about another graph"] = both + 3 * lies
        return Sight(planted.coins, views, [degree_strata(known, planted.pairs)])

    return Coins(name, see)


def _tiny(blink: Blink, effort: Effort, name: str, first: Graph, second: Graph, pair: tuple[int, int]) -> Neighbours:
    rngs = [effort.rng("noise", name, side) for side in (0, 1)]
    jobs = [trial_job(g, None) for g in (first, second)]
    u, v = pair
    width = 1 + int(2 / float(blink.split[1]))

    def sample(side: int, count: int) -> Views:
        codes: dict[str, list[Any]] = {"two reported bits": [], "bits and degrees": [], "output": []}
        for _ in range(count):
            seed = None if effort.secure else int(rngs[side].integers(2**62))
            seen = blink.noise_stage(replace(jobs[side], seed=seed)).inference
            bits = int(seen.pairs(u, v)) + int(seen.pairs(v, u))
            total = int(np.clip((seen.degrees[u] + seen.degrees[v]) // width, -6, 6))
            codes["two reported bits"].append(bits)
            codes["bits and degrees"].append((bits, total))
            codes["output"].append(seen.bits.tobytes() + seen.degrees.tobytes())
        return codes

    return Neighbours(name, sample)
