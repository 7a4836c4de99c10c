"""The query guard: notices questions that look like link stealing, and slows, lists or refuses them.

This is a heuristic (LinkTeller App. E1) without any guarantee: an attacker who moves rows far, waits, or uses labels
only is not seen. What protects edges is a release with a sound guarantee; docs/guard.md gives measured rates.

A *probe* is a query whose changed rows lie close to rows seen before (stored or sent by anyone) and whose answer
concerns other nodes as well. A *cross-reading* changes rows by any amount and reads nodes whose own rows are as they
were, which is what any finite difference needs. Repeating an identical query is neither: it tells nothing new.
"""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgeveil.serve.config import GuardSettings
from edgeveil.serve.engine import Change
from edgeveil.serve.sketch import RowMemory

__all__ = ["ACTIONS", "PASS", "Decision", "Guard"]

Int = NDArray[np.int64]
Action = Literal["pass", "log", "slow", "review", "refuse"]
ACTIONS: tuple[Action, ...] = ("pass", "log", "slow", "review", "refuse")
_REMEMBERED = 100_000
_SHARES = (("log", 0.5), ("slow", 0.75), ("review", 1.0))


@dataclass(frozen=True)
class Decision:
    """What to do with one query, and why. `partners` are other keys that took part."""

    action: Action = "pass"
    detector: str = ""
    score: int = 0
    limit: int = 0
    delay: float = 0.0
    partners: tuple[str, ...] = ()


PASS = Decision()


class Guard:
    """Detectors over one release's traffic. `watch` judges a query before it is answered and counts it if it may pass.

    Scores by (subject, detector): ``single`` and ``grouped`` per key, ``scan`` per tenant over all sessions,
    ``cross`` and ``subsets`` per key, ``shared`` over all keys together.
    """

    def __init__(
        self,
        settings: GuardSettings,
        *,
        num_nodes: int,
        num_features: int,
        secret: bytes = b"",
        protected: bool = False,
    ) -> None:
        self.settings = settings
        self._ceiling = self._strongest(settings, protected)
        self._rows = RowMemory(num_features, near=settings.near, secret=secret)
        self.scores: dict[tuple[str, str], int] = defaultdict(int)
        self._scanned: dict[str, set[int]] = defaultdict(set)
        self._answered: Int = np.zeros(num_nodes, np.int64)
        self._by_key: dict[str, Int] = {}
        self._subsets: dict[str, dict[int, set[bytes]]] = defaultdict(lambda: defaultdict(set))
        self._queries: dict[bytes, None] = {}
        self._lock = threading.Lock()

    @staticmethod
    def _strongest(settings: GuardSettings, protected: bool) -> int:
        if settings.action == "off":
            return 0
        if protected and settings.only_unprotected:
            return ACTIONS.index("log")
        return ACTIONS.index(settings.action)

    def watch(self, key: str, tenant: str, change: Change | None, asked: Int, *, subset: Int | None = None) -> Decision:
        """Judge one query. `subset`: the nodes of an induced query."""
        if self._ceiling == 0:
            return PASS
        with self._lock:
            decision = PASS if subset is None else self._watch_subset(key, subset)
            if decision.action == "refuse" or change is None:
                return decision
            return _worse(decision, self._watch_change(key, tenant, change, asked))

    def forgive(self, subject: str) -> None:
        """Forget the scores of a key or tenant after an operator has looked at them."""
        with self._lock:
            for name in [name for name in self.scores if name[0] == subject]:
                del self.scores[name]
            self._scanned.pop(subject, None)
            self._subsets.pop(subject, None)
            mine = self._by_key.pop(subject, None)
            if mine is not None:
                self._answered -= mine

    def restore(self, scores: dict[tuple[str, str], int]) -> None:
        """Take over scores kept from earlier runs."""
        with self._lock:
            for name, score in scores.items():
                self.scores[name] = max(self.scores[name], score)

    # -- detectors ------------------------------------------------------------------------------------------------

    def _watch_change(self, key: str, tenant: str, change: Change, asked: Int) -> Decision:
        name = hashlib.sha256(change.written(asked)).digest()
        if name in self._queries:
            return PASS
        verdicts, marks = self._rows.judge(change.nodes, change.rows, change.stored)
        moved = change.nodes[[verdict == "near" for verdict in verdicts]]
        new = change.nodes[[verdict != "known" for verdict in verdicts]]
        decision = PASS
        if len(moved) and (len(moved) > 1 or not np.isin(asked, moved).all()):
            decision = self._judge_probe(key, tenant, moved, asked)
        elif not np.isin(asked, new).all():
            found = [(key, "cross", self.scores[key, "cross"] + 1, self.settings.cross_limit)]
            decision = self._weigh(key, found, asked)
        if decision.action != "refuse":
            self._rows.remember(change.nodes, marks)
            self._queries[name] = None
            while len(self._queries) > _REMEMBERED:
                del self._queries[next(iter(self._queries))]
        return decision

    def _judge_probe(self, key: str, tenant: str, moved: Int, asked: Int) -> Decision:
        settings = self.settings
        single = len(moved) <= settings.few_rows
        kind, limit = ("single", settings.single_limit) if single else ("grouped", settings.grouped_limit)
        found = [(key, kind, self.scores[key, kind] + 1, limit)]
        if single:
            new = set(moved.tolist()) - self._scanned[tenant]
            found.append((tenant, "scan", self.scores[tenant, "scan"] + len(new), settings.scan_limit))
        decision = self._weigh(key, found, asked)
        if single and decision.action != "refuse":
            self._scanned[tenant] |= set(moved.tolist())
        return decision

    def _weigh(self, key: str, found: list[tuple[str, str, int, int]], asked: Int) -> Decision:
        """The worst of the scores found and of what all keys have asked about these nodes; counted unless refused."""
        partners = self._partners(key, asked)
        if partners:
            shared = int(np.median(self._answered[asked])) + 1
            found = [*found, ("*", "shared", shared, self.settings.shared_limit)]
        decisions = [self._decide(detector, score, limit, partners) for _, detector, score, limit in found]
        worst = max(decisions, key=lambda d: (ACTIONS.index(d.action), d.score / max(d.limit, 1)))
        if worst.action != "refuse":
            for subject, detector, score, _ in found:
                self.scores[subject, detector] = max(score, self.scores[subject, detector])
            self._count_answers(key, asked)
        return worst

    def _count_answers(self, key: str, asked: Int) -> None:
        self._answered[asked] += 1
        if key not in self._by_key and len(self._by_key) >= 256:
            self._by_key.pop(next(iter(self._by_key)))
        self._by_key.setdefault(key, np.zeros_like(self._answered))[asked] += 1

    def _partners(self, key: str, asked: Int) -> tuple[str, ...]:
        """Other keys with at least two probes about most of these nodes."""
        return tuple(k for k, counts in self._by_key.items() if k != key and np.median(counts[asked]) >= 2)

    def _watch_subset(self, key: str, subset: Int) -> Decision:
        name = hashlib.sha256(np.sort(subset).tobytes()).digest()
        seen = self._subsets[key]
        score = max(len(seen[node] | {name}) for node in subset.tolist())
        decision = self._decide("subsets", score, self.settings.subset_limit, ())
        if decision.action != "refuse":
            for node in subset.tolist():
                seen[node].add(name)
            self.scores[key, "subsets"] = max(score, self.scores[key, "subsets"])
        return decision

    def _decide(self, detector: str, score: int, limit: int, partners: tuple[str, ...]) -> Decision:
        share = score / limit
        action: Action = "pass"
        for name, at in _SHARES:
            if share >= at:
                action = name  # type: ignore[assignment]
        if score > limit * self.settings.refuse_share:
            action = "refuse"
        action = ACTIONS[min(ACTIONS.index(action), self._ceiling)]
        delay = self.settings.slow_seconds * min(1.0, share) if ACTIONS.index(action) in (2, 3) else 0.0
        return Decision(action, detector, score, limit, delay, partners if detector == "shared" else ())


def _worse(a: Decision, b: Decision) -> Decision:
    return a if ACTIONS.index(a.action) > ACTIONS.index(b.action) else b
