"""The server without HTTP: who asks, what it costs, what the guard thinks, and only then the answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.defence import DEFENCES
from edgeveil.errors import StorageError, UsageError
from edgeveil.privacy.guarantee import SEEDED
from edgeveil.privacy.ledger.accounts import Account
from edgeveil.privacy.ledger.chain import Head
from edgeveil.privacy.ledger.database import Database
from edgeveil.privacy.ledger.heads import HeadFile, check_recorded, last_logged
from edgeveil.privacy.ledger.ledger import Spend
from edgeveil.privacy.ledger.overlap import Bill
from edgeveil.privacy.ledger.units import UNLIMITED, from_units
from edgeveil.release.release import Release
from edgeveil.serve.auth import Key, KeyStore, key_id_of
from edgeveil.serve.config import Settings
from edgeveil.serve.engine import Change, Engine
from edgeveil.serve.exposure import recoverable_edges
from edgeveil.serve.guard import Decision
from edgeveil.serve.inference import Inference, Question
from edgeveil.serve.leases import Leases
from edgeveil.serve.policy import COARSE, Answer, OutputPolicy
from edgeveil.serve.problems import AuditUnavailable, Problem
from edgeveil.serve.readings import Limits, Mode, Readings
from edgeveil.serve.server_ledger import Ledger
from edgeveil.serve.snapshots import SnapshotRequest, Snapshots
from edgeveil.serve.telemetry import AuditLog, Metrics
from edgeveil.serve.throttle import Throttle
from edgeveil.serve.watch import Watch
from edgeveil.serve.wire import Named, Query, ReadyRows
from edgeveil.serve.words import in_numbers, named

__all__ = ["Answered", "Service"]

log = logging.getLogger("edgeveil")
T = TypeVar("T")
_FEW = 32  # rows that are compared with the stored ones without leaving the event loop
CHARGED = {"charged": {"queries": 1, "epsilon": 0}}
FREE = "post-processing of a private release: no query costs epsilon"
NO_EPSILON = "no query is charged epsilon, because this release has no sound guarantee to account for"


@dataclass(frozen=True)
class Answered:
    """An answer, the nodes it is about, and what the guard noted. `ready`: stored answers of all nodes."""

    nodes: NDArray[np.int64]
    rows: Answer | None = None
    ready: ReadyRows | None = None
    computed: bool = False
    alone: bool = False
    named: Named | None = None

    @property
    def answer(self) -> Answer:
        """The rows of `nodes`."""
        if self.rows is not None:
            return self.rows
        assert self.ready is not None
        return self.ready.answer.rows(self.nodes)

    def facts(self) -> dict[str, Any]:
        """What it cost, and how it was answered."""
        return {**CHARGED, "alone": True} if self.alone else CHARGED


class Service:
    """Everything one server process holds."""

    def __init__(self, settings: Settings, release: Release | None = None) -> None:
        self.settings = settings
        self.release = Release.load(settings.release) if release is None else release
        _check_release(self.release, settings)
        self.database = _open_state(settings)
        self.ledger = Ledger(self.database)
        self.keys = KeyStore(self.database, memory=settings.key_memory)
        self.watch = Watch(self.database, settings.guard)
        guard = settings.guard
        limits = Limits(guard.cross_readings, guard.cross_readings_all, guard.own_readings)
        self.readings = Readings(self.database, limits)
        node_cap = guard.node_limit
        self.leases = Leases(self.ledger, block=settings.lease_block, node_cap=node_cap, node_block=settings.node_block)
        caps = {settings.edge_set: settings.epsilon_cap, **settings.edge_sets}
        folder = settings.state / "snapshots"
        self.snapshots = Snapshots(
            self.release, self.ledger, folder, settings.edge_set, caps, settings.feature_reach,
            named="edge_set" in settings.model_fields_set,
            tenants={name: frozenset(who) for name, who in settings.edge_set_tenants.items()},
        )  # fmt: skip
        self.policy = _policy(settings, self.release)
        self.metrics = Metrics()
        self.audit = AuditLog(settings.audit_path)
        self.throttle = Throttle(settings.failed_keys)
        self.proxies = frozenset(settings.trusted_proxies)
        self.bodies = ThreadPoolExecutor(2, thread_name_prefix="bodies")  # the default pool is for the ledger alone
        self._building = ThreadPoolExecutor(2, thread_name_prefix="snapshots")
        self.inference = Inference(
            settings.threads, settings.batch, settings.queue, settings.request_timeout, self.metrics.batch
        )
        self._ready_answers: dict[str, ReadyRows] = {}
        self.connections: Callable[[], int] = lambda: 0
        self._opened = False
        self._ready_at = -math.inf

    # -- life -----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Reach the ledger, charge the release once, ready the guard; any failure here keeps the server down."""
        import torch

        if self._opened:
            return
        torch.set_num_threads(1)
        DEFENCES.load()
        self._open_ledger()
        self.snapshots.open()
        self.readings.open(self.snapshots.edge_set)
        self._warn_of_exposure()
        self._opened = True
        self.watch.guard(self.snapshots.base)
        self.audit.write("start", defence=self.release.defence, guarantee=self.release.guarantee.status)

    def _open_ledger(self) -> None:
        """Its key, and no older than any head that survived elsewhere; from here on every entry leaves its head."""
        settings, beside = self.settings, HeadFile.beside(self.settings.release)
        self.ledger.unlock(settings.key_path)
        for head, where in ((beside.read(), beside.path), (last_logged(settings.audit_path), settings.audit_path)):
            if head is not None:
                self.ledger.check_head(head, str(where))
        check_recorded(self.ledger, settings.release)

        def witness(head: Head) -> None:
            beside.write(head)
            with contextlib.suppress(AuditUnavailable):  # the answer's own line fails too, and nothing leaves
                self.audit.write("ledger", **head.to_json())

        self.ledger.witness = witness
        witness(self.ledger.head())

    def _warn_of_exposure(self) -> None:
        engine = self.snapshots.base
        if engine.rowwise or engine.release.guarantee.status == "sound" or not self.is_open(engine):
            return
        allowed = self.readings.limits.cross_all if self.readings.limits.cross else 0
        questions = allowed if self.is_bounded(engine) else None
        low, high, total = recoverable_edges(engine.release, questions)
        found = f"{low} to {high}" if low < high else str(high)
        said = "any number of cross-readings" if questions is None else f"{questions} cross-readings of every node"
        log.warning(
            "changed features are open and this release has no sound guarantee: %s (guard.cross_readings, "
            "cross_readings_all) recover about %s of %d edges, and similar answers hint at more. What holds against "
            "any number of tenants is a release with a sound guarantee: edgeveil release --defence lapgraph",
            said, found, total,
        )  # fmt: skip

    async def close(self) -> None:
        """Return unused quota, keep the guard's scores, close files."""
        await self.leases.close()
        try:
            await asyncio.to_thread(self.watch.flush)
        finally:
            self.inference.close()
            for pool in (self.bodies, self._building):
                pool.shutdown(wait=False, cancel_futures=True)
            with contextlib.suppress(AuditUnavailable):
                self.audit.write("stop")
            self.audit.close()
            self.database.close()

    def check_ready(self) -> None:
        """Raise unless all methods are loaded and the ledger and the audit log can be written (tried once a second)."""
        if not self._opened:
            raise Problem(503, "starting", "the server is starting", retry_after=1)
        if time.monotonic() - self._ready_at > 1.0:
            self.database.check_writable()
            self.audit.write("ready")
            self._ready_at = time.monotonic()

    # -- callers --------------------------------------------------------------------------------------------------

    async def authenticate(self, header: str | None, permission: str, address: Callable[[], str] = str) -> Key:
        """The key in an ``Authorization: Bearer`` header, if it may do this; failures are limited per address."""
        scheme, _, presented = (header or "").partition(" ")
        if scheme.lower() != "bearer":
            raise Problem(401, "missing_key", "send your API key: Authorization: Bearer ev_...")
        key = self.keys.remembered(presented.strip())
        if key is None:
            key = await self.verify(presented.strip(), address())
        return self.authorise(key, permission)

    async def verify(self, presented: str, address: str) -> Key:
        """The active key behind what a client sent; the ledger is not asked for an address that failed too often."""
        key_id = key_id_of(presented)
        self.throttle.check(address, key_id)
        try:
            key = await asyncio.to_thread(self.keys.verify, presented)
        except Problem:
            self.throttle.failed(address, key_id)
            raise
        self.throttle.succeeded(address, key_id)
        return key

    @staticmethod
    def authorise(key: Key, permission: str) -> Key:
        """The key itself if its role allows this, else a 403."""
        if not key.may(permission):
            raise Problem(403, "forbidden", f"a key with role {key.role!r} may not do this")
        return key

    # -- answers --------------------------------------------------------------------------------------------------

    async def predict(self, key: Key, query: Query) -> Answered:
        """Check, count, judge, answer. Nothing is counted for a query that is refused or fails."""
        self.audit.check()
        engine = self.snapshots.ready(query.snapshot, key.viewer)
        if engine is None:
            engine = await self.load_snapshot(str(query.snapshot), key.viewer)
        if query.words is not None:
            query = await self.aside(in_numbers, query, engine.release, self.release, self.settings.max_nodes)
        if query.induced and not self.settings.induced:
            raise Problem(403, "induced_disabled", "this server does not answer on induced subgraphs")
        engine.check(query, self.settings.max_nodes, self.settings.feature_reach)
        if query.features is None and not query.induced:
            await self.leases.take(key.tenant)
            got = self._stored(engine, query)
        else:
            got = await self._predict_changed(key, engine, query)
        return replace(got, named=named(engine.release, got.nodes)) if query.named else got

    async def _predict_changed(self, key: Key, engine: Engine, query: Query) -> Answered:
        self.inference.check()
        few = query.features is not None and len(query.features) <= _FEW
        change = engine.change(query) if few else await self.inference.run(engine.change, query)
        if change is not None and not self.is_open(engine):
            raise Problem(
                403, "changed_features_closed", "this release has no sound guarantee about edges, so it answers for "
                "its stored features only; drop features",
            )  # fmt: skip
        asked = engine.asked(query)
        counted = asked if change is not None or query.induced else None
        await self.leases.take(key.tenant, engine.name, counted, engine.num_nodes)
        alone = False
        try:
            if change is not None and self.is_bounded(engine):
                alone = await asyncio.to_thread(self._count, key.tenant, engine, change, asked) == "alone"
            judge = None if alone else self._judge(key, engine, query, change, asked)
            logits = await self._ask(key, Question(engine, query, change, alone, judge))
        except BaseException:
            self.leases.undo(key.tenant, engine.name, counted)
            raise
        if not np.isfinite(logits).all():  # counted: where an answer overflows tells who the neighbours are
            await self._overflowed(key)
        self.metrics.rows("stored" if counted is None else "computed", len(asked))
        return Answered(asked, self.policy.apply(logits), computed=counted is not None, alone=alone)

    def _count(self, tenant: str, engine: Engine, change: Change, asked: Any) -> Mode:
        return self.readings.take(tenant, change, asked, engine.identity)

    async def _ask(self, key: Key, question: Question) -> Any:
        """Have a question judged and answered; a delayed one waits between the two."""
        decision, logits = await self.inference.ask(question)
        await self._note_decision(key, decision)
        if logits is None:
            await asyncio.sleep(decision.delay)
            _, logits = await self.inference.ask(replace(question, judge=None))
        return logits

    def is_open(self, engine: Engine) -> bool:
        """Whether an engine answers under changed features: that cannot show edges, or the operator has said so."""
        if engine.rowwise or engine.release.guarantee.status == "sound":
            return self.settings.changed_features is not False
        return self.settings.changed_features is True

    def is_bounded(self, engine: Engine) -> bool:
        """Whether readings under changed features are counted: where they can show edges, if the guard may refuse."""
        guard = self.settings.guard
        protected = engine.release.guarantee.status == "sound" and guard.only_unprotected
        return guard.action == "refuse" and not protected and not engine.rowwise

    async def _overflowed(self, key: Key) -> None:
        self.metrics.guard("overflow", "refuse")
        self.audit.write("guard", key=key.id, tenant=key.tenant, detector="overflow", action="refuse", score=1)
        await asyncio.to_thread(self.watch.note, key.id, key.tenant, Decision("refuse", "overflow", 1, 0))
        raise Problem(422, "not_finite", "the answer is not a finite number; send smaller features")

    def _judge(
        self, key: Key, engine: Engine, query: Query, change: Change | None, asked: Any
    ) -> Callable[[], Decision] | None:
        subset = query.nodes if query.induced and not engine.rowwise else None
        if change is None and subset is None:
            return None
        return partial(self.watch.judge, engine, key.id, key.tenant, change, asked, subset)

    async def _note_decision(self, key: Key, decision: Decision) -> None:
        if decision.action in ("review", "refuse"):
            await asyncio.to_thread(self.watch.note, key.id, key.tenant, decision)
        if decision.action != "pass":
            self.metrics.guard(decision.detector, decision.action)
            facts: dict[str, Any] = {k: getattr(decision, k) for k in ("detector", "action", "score")}
            self.audit.write("guard", key=key.id, tenant=key.tenant, limit=decision.limit, **facts)
        if decision.action == "refuse":
            raise Problem(
                429, "guard_refused", "this sequence of queries looks like an attempt to find edges; "
                "it is on the operator's review list", detector=decision.detector,
            )  # fmt: skip

    def _stored(self, engine: Engine, query: Query) -> Answered:
        """What the policy lets through of every stored answer is worked out once."""
        found = self._ready_answers.get(engine.name)
        if found is None:
            found = self._ready_answers[engine.name] = ReadyRows(self.policy.apply(engine.base), CHARGED)
        asked = engine.asked(query)
        self.metrics.rows("stored", len(asked))
        return Answered(asked, ready=found)

    async def aside(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run in the threads for large bodies, which neither authentication nor the ledger waits for."""
        return await asyncio.get_running_loop().run_in_executor(self.bodies, function, *arguments)

    async def load_snapshot(self, name: str, tenant: str | None) -> Engine:
        """The engine of a snapshot that may have to be read from disk."""
        return await asyncio.get_running_loop().run_in_executor(self._building, self.snapshots.engine, name, tenant)

    async def make_snapshot(self, request: SnapshotRequest, key: Key, token: str) -> tuple[dict[str, Any], Spend]:
        """Charge and build a snapshot; goes on when the client leaves."""
        create = partial(self.snapshots.create, request, tenant=key.tenant, key_id=key.id, token=token)
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._building, create))

    # -- facts ----------------------------------------------------------------------------------------------------

    def guarantee(self, engine: Engine) -> dict[str, Any]:
        """What a release promises, and that asking it is free."""
        facts = engine.release.guarantee.to_json()
        sound = engine.release.guarantee.status == "sound"
        return {"guarantee": facts, "epsilon_per_query": 0, "why": FREE if sound else NO_EPSILON}

    def model(self) -> dict[str, Any]:
        """What a client must know to ask."""
        release, settings = self.release, self.settings
        return {
            "defence": release.defence,
            "model": release.model,
            "num_nodes": release.num_nodes,
            "num_features": release.matrix.shape[1],
            "num_classes": release.num_classes,
            "class_names": release.class_names and list(release.class_names),
            "multilabel": release.multilabel,
            "output": self.policy.describe(),
            "changed_features": self.is_open(self.snapshots.base),
            "induced": settings.induced,
            "max_nodes": settings.max_nodes,
            "dataset": release.dataset,
            "is_twin": release.is_twin,
        }

    def standing(self) -> list[Account]:
        """Epsilon accounts with what was paid: by a tenant in all, by any one edge of an edge set at most."""
        bills = {f"edges:{name}": bill.epsilon for name, bill in self.ledger.bills().items()}
        found = (a for a in self.ledger.accounts("epsilon") if a.subject != "tenant:owner")
        return [Account(a.subject, a.resource, a.cap, bills.get(a.subject, a.used)) for a in found]

    def refresh_metrics(self) -> bytes:
        """The metrics text with the ledger's present state."""
        bills = self.ledger.bills()
        for account in self.standing():
            bill = bills.get(account.subject.removeprefix("edges:"), Bill())
            spent = math.inf if bill.unbounded else float(from_units(account.used))
            self.metrics.epsilon(account.subject, spent, float(from_units(account.cap)))
        for account in self.ledger.accounts("queries"):
            limit = None if account.cap >= UNLIMITED else account.cap
            self.metrics.queries(account.subject.removeprefix("tenant:"), account.used, limit)
        self.metrics.load(self.inference.waiting, self.settings.queue, self.connections())
        return self.metrics.text()


def _policy(settings: Settings, release: Release) -> OutputPolicy:
    """Exact probabilities show neighbours by their logarithms as logits do; rounded ones less (docs/guard.md)."""
    decimals = settings.decimals
    if decimals is None and settings.output == "probabilities" and release.guarantee.status != "sound":
        decimals = COARSE
    return OutputPolicy(settings.output, decimals, settings.top_k, release.multilabel)


def _open_state(settings: Settings) -> Database:
    """The state folder and the database in it, or one sentence about what is missing."""
    try:
        settings.state.mkdir(parents=True, exist_ok=True)
        return Database(settings.ledger_url, timeout=settings.ledger_timeout)
    except OSError as error:
        raise StorageError(
            f"cannot write the state folder {settings.state}: {error.strerror or error}; make it, give it to the user "
            "who runs the server, or name another with --state"
        ) from error


def _check_release(release: Release, settings: Settings) -> None:
    if release.guarantee.randomness == SEEDED and not settings.insecure_demo:
        raise UsageError(
            "the noise of this release was seeded: reproducible, not private. Make it without a seed, or say "
            "--insecure-demo"
        )
    if release.contains_private_graph:
        log.warning("this release has no defence and contains the private graph: its answers can give edges away")
    elif release.guarantee.status != "sound":
        log.warning("this release has no sound privacy guarantee (%s)", release.guarantee.status)
    if not settings.is_loopback and settings.tls_cert is None and not settings.plain_http:
        raise UsageError(
            f"{settings.host} is not a loopback address: give tls_cert and tls_key, or say plain_http behind a proxy"
        )
