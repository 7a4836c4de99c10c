"""What is public about a mechanism that publishes a noisy graph: how often it shows edges, and pairs that are none."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.posterior.pair_evidence import Shown

__all__ = ["CoinLaw", "EndsLaw", "Law", "describes", "law_of"]

Float = NDArray[np.float64]
COINS, LISTS = ("none", "edgerand", "lapgraph"), ("graphprivatizer", "gp-m", "gp-t", "rr")


@dataclass(frozen=True, eq=False, kw_only=True)
class Law(ABC):
    """The law of one mechanism on one stored graph. `density` of true edges, by moments of what is shown."""

    source: str
    density: float

    @property
    def noiseless(self) -> bool:
        """What is shown is the graph itself."""
        return False

    @property
    def independent(self) -> bool:
        """Given the edges, what is shown of one pair says nothing of another; so a prior can be learned from all."""
        return True

    @abstractmethod
    def likelihood(self, shown: Shown) -> tuple[Float, Float]:
        """P(what is shown of each pair | edge), and | no edge."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CoinLaw(Law):
    """One bit per pair: shown with probability `kept` if it is an edge, `false` if it is none."""

    kept: float
    false: float

    @property
    def noiseless(self) -> bool:
        """Every edge and nothing else is shown."""
        return self.kept == 1 and self.false == 0

    def likelihood(self, shown: Shown) -> tuple[Float, Float]:
        """The coin's two sides."""
        bit = shown.either
        return np.where(bit, self.kept, 1 - self.kept), np.where(bit, self.false, 1 - self.false)


@dataclass(frozen=True, eq=False, kw_only=True)
class EndsLaw(Law):
    """Two entries per pair, one by each end. `by_ends`: share of edges among pairs that 0, 1 or 2 ends show (moments).

    Pairs that no end shows are split by whether they have a shown neighbour in common (`near`) or not (`by_ends[0]`).
    Which non-edges are shown depends on private edges, so bits are not independent and no prior is learned from them.
    """

    by_ends: tuple[float, float, float]
    near: float

    @property
    def independent(self) -> bool:
        """Replaced entries land on neighbours of neighbours."""
        return False

    def likelihood(self, shown: Shown) -> tuple[Float, Float]:
        """Up to a factor: the shares, less the density."""
        ends = shown.there.astype(np.int64) + shown.back
        share = np.where((ends == 0) & (shown.kinds[0] > 0), self.near, np.array(self.by_ends)[ends])
        return share / self.density, (1 - share) / (1 - self.density)


def describes(mechanism: Mapping[str, Any] | None) -> str:
    """``noise``, ``none`` (the graph itself is stored) or empty: no law is known here."""
    name, epsilon = _facts(mechanism)[:2]
    if name == "none" or (name in LISTS and epsilon == math.inf):
        return "none"
    return "noise" if name in (*COINS, *LISTS) and epsilon is not None and math.isfinite(epsilon) else ""


def law_of(mechanism: Mapping[str, Any] | None, lists: Any) -> Law:
    """The law of a described mechanism that stores `lists` (CSR, row i names whom i lists)."""
    name, epsilon, params = _facts(mechanism)
    pairs = lists.shape[0] * (lists.shape[0] - 1) // 2
    stored = sp.triu(((lists + lists.T) > 0), 1).nnz
    if describes(mechanism) == "none":
        return _coin("no noise", 1.0, 0.0, stored, pairs)
    assert epsilon is not None
    if name == "edgerand":
        flip = 1 / (math.exp(epsilon) + 1)
        return _coin("EdgeRand's coin", 1 - flip, flip, stored, pairs)
    if name == "lapgraph":
        given = params.get("count_epsilon")
        count = float(params.get("count_share", 0.01)) * epsilon if given is None else float(given)
        return _coin("LapGraph's cut", *_cut(epsilon - count, stored, pairs), stored, pairs)
    if name == "rr":
        return _two_hop(lists, epsilon, pairs)
    one = params.get("strategy") == "most-similar" or name == "gp-m"
    return _replacement(lists, epsilon, one, pairs)


def _facts(mechanism: Mapping[str, Any] | None) -> tuple[str, float | None, Mapping[str, Any]]:
    params: Mapping[str, Any] = (mechanism or {}).get("params", {})
    epsilon = params.get("epsilon")
    return str((mechanism or {}).get("name", "")), None if epsilon is None else float(epsilon), params


def _coin(source: str, kept: float, false: float, stored: int, pairs: int) -> CoinLaw:
    density = (stored / max(pairs, 1) - false) / (kept - false)
    return CoinLaw(source=source, kept=kept, false=false, density=_share(density, pairs))


def _share(density: float, pairs: int) -> float:
    return min(max(density, 1 / max(pairs, 2)), 0.5)


def _cut(epsilon: float, stored: int, pairs: int) -> tuple[float, float]:
    """LapGraph keeps the T largest cells: the level t solves E P(1 + Lap > t) + (N - E) P(Lap > t) = T, with E = T."""
    low, high = -1.0, 2.0 + 60 / epsilon
    for _ in range(200):
        level = (low + high) / 2
        above = stored * _tail(level - 1, epsilon) + (pairs - stored) * _tail(level, epsilon)
        low, high = (level, high) if above > stored else (low, level)
    return _tail(low - 1, epsilon), _tail(low, epsilon)


def _tail(x: float, epsilon: float) -> float:
    """P(Lap(1/epsilon) > x)."""
    return 0.5 * math.exp(-epsilon * x) if x >= 0 else 1 - 0.5 * math.exp(epsilon * x)


def _replacement(lists: Any, epsilon: float, one: bool, pairs: int) -> EndsLaw:
    """GraphPrivatizer, Eq. 5: an entry naming u stays with e^eps / (e^eps + c), c candidates among u's neighbours.

    Else a neighbour of u stands there, which closes a triangle as often as triangles are closed among pairs that both
    ends show. Lists keep their lengths, but for repeats.
    """
    length = np.asarray(lists.sum(axis=1)).ravel()
    others = np.maximum(length - 1, 0)
    stays = np.exp(epsilon) / (np.exp(epsilon) + (np.minimum(others, 1) if one else others))
    stay = float((length * stays).sum() / max(length.sum(), 1))
    both = lists.multiply(lists.T).tocsr()
    paths = (both @ both).tocsr()
    closed = float(paths.multiply(both).sum()) / max(float(paths.sum() - paths.diagonal().sum()), 1.0)
    kept = stay + (1 - stay) * closed
    return _ends("GraphPrivatizer's replacement", lists, lists.nnz / 2, kept, pairs)


def _two_hop(lists: Any, epsilon: float, pairs: int) -> EndsLaw:
    """Edges E and non-edges within two hops T from how many pairs one end and both ends show, linear in E and T."""
    flip = 1 / (math.exp(epsilon) + 1)
    both = lists.multiply(lists.T).nnz / 2
    once = lists.nnz - 2 * both
    total = once / (2 * flip * (1 - flip))  # E + T; both = (1 - f)^2 E + f^2 T
    edges = min(max((both - flip**2 * total) / (1 - 2 * flip), 1.0), max(lists.nnz - both, 1.0))
    return _ends("randomised response within two hops", lists, edges, 1 - flip, pairs)


def _ends(source: str, lists: Any, edges: float, kept: float, pairs: int) -> EndsLaw:
    """Shares of edges by the number of ends that show a pair, if each end of an edge shows it with probability `kept`.

    Edges that no end shows: one half is taken to have a shown neighbour in common.
    """
    both = lists.multiply(lists.T).nnz / 2
    once = lists.nnz - 2 * both
    near = max(_reached(((lists + lists.T) > 0).astype(np.float64).tocsr()) - once - both, 1.0)
    lost = 0.5 * edges * (1 - kept) ** 2
    far, close = _bounded(lost / max(pairs - near, 1.0)), _bounded(lost / near)
    one, two = _bounded(2 * edges * kept * (1 - kept) / max(once, 1)), _bounded(edges * kept**2 / max(both, 1))
    return EndsLaw(source=source, density=_share(edges / max(pairs, 1), pairs), by_ends=(far, one, two), near=close)


def _bounded(share: float) -> float:
    return min(max(share, 1e-9), 1 - 1e-4)


def _reached(either: Any, rows: int = 400) -> float:
    """Pairs with a common neighbour, from evenly spread rows."""
    n = either.shape[0]
    some = np.unique(np.linspace(0, n - 1, min(n, rows)).astype(np.int64))
    return float(((either[some] @ either).nnz - len(some)) * n / len(some) / 2)
