"""The ledger: every grant is checked and recorded in one database transaction, and only then acted upon.

A spend is charged twice in that transaction, to the edge set it concerns (all tenants together: they may collude) and
to the tenant who asked. A cap holds against the edge set's bill: the largest sum over any one of its edges, under
whatever names (see `overlap`). What no number bounds marks the edge set for ever. A crash after the charge loses the
charge, never the record. A request carries a token of the client's choice; asking again with the same token finds the
first charge instead of making a second one.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from edgeveil.errors import BudgetExceeded, InputError, LedgerUnavailable
from edgeveil.privacy.ledger import accounts, chain, contents
from edgeveil.privacy.ledger.accounts import DELTA, EPSILON, Account
from edgeveil.privacy.ledger.contents import Content, EdgeSet, Shelf
from edgeveil.privacy.ledger.database import Database
from edgeveil.privacy.ledger.edges import EdgeHashes, EdgeKey
from edgeveil.privacy.ledger.keyfile import attach_key
from edgeveil.privacy.ledger.overlap import LARGE, UNKNOWN, Bill, bills
from edgeveil.privacy.ledger.units import (
    DELTA_CAP,
    UNLIMITED,
    delta_to_units,
    from_delta_units,
    from_units,
    to_units,
)

__all__ = ["Ledger", "Quote", "Spend", "TokenReused", "UnboundedSpend"]

OWNER = "owner"


class TokenReused(InputError):
    """A token that was used for another request."""


class UnboundedSpend(BudgetExceeded):
    """A cap that no further release can keep, because nothing bounds what the edges have paid."""

    def __init__(self, subject: str, cap: Fraction, why: str) -> None:
        super().__init__(cap, Fraction(0), Fraction(0))
        self.args = (
            f"budget exceeded: account {subject} has the cap {float(cap):g}, and nothing bounds what is told: {why}. "
            "This stays so for ever; raise the cap only if you accept it (edgeveil ledger edge-set NAME --no-cap)",
        )


@dataclass(frozen=True)
class Spend:
    """One recorded charge; `fresh` is False when the token had been used for it before."""

    id: str
    amount: int
    edge_set: str
    status: str
    fresh: bool
    delta: int = 0
    unbounded: str = ""


class _Undo(Exception):
    """Takes a transaction back that was only tried."""

    def __init__(self, spend: Spend) -> None:
        self.spend = spend


@dataclass(frozen=True)
class Quote:
    """What a spend would do, without doing it."""

    epsilon: float
    allowed: bool
    accounts: Mapping[str, Mapping[str, float]]


class Ledger:
    """Accounts, edge sets and charges in one database.

    `witness` is told the journal's head after every entry; a server keeps it where an old copy of the ledger is not.
    """

    def __init__(self, database: Database, key: EdgeKey | None = None) -> None:
        self.database = database
        self._key = key
        self.witness: Callable[[chain.Head], None] | None = None

    @property
    def key(self) -> EdgeKey:
        """The secret that edges and requests are hashed with; see `edgeveil.privacy.ledger.open_ledger`."""
        if self._key is None:
            raise LedgerUnavailable("this ledger was opened without its key, so it can record no edges")
        return self._key

    def unlock(self, path: Path) -> None:
        """Read the ledger's key from its file; a new ledger makes one."""
        self._key = attach_key(self.database, path)

    @contextmanager
    def _entry(self) -> Iterator[Connection]:
        """One durable transaction of the journal; the head is announced once it is on disk."""
        with self.database.write() as connection:
            before = chain.lock(connection)
            yield connection
            after = chain.current(connection)
        if self.witness is not None and after != before:
            self.witness(after)

    def _note(self, connection: Connection, kind: str, facts: Mapping[str, Any]) -> None:
        chain.extend(connection, self.database.now(connection, keep=True), kind, facts)

    # -- accounts -------------------------------------------------------------------------------------------------

    def open_account(self, subject: str, resource: str, cap: int) -> Account:
        """Create an account, or set the cap of an existing one (never below what is used)."""
        with self._entry() as connection:
            found = accounts.locked(connection, [subject], resource).get(subject)
            if found is not None and found.cap == cap:
                return found
            used = 0 if found is None else found.used
            if cap < used:
                raise InputError(f"the cap of {subject} cannot be {cap}: {used} is already used")
            accounts.insert(connection, [subject], resource, cap)
            accounts.update(connection, resource, [{"s": subject, "used": used, "cap": cap}])
            if subject.startswith("edges:"):
                _insert_edge_set(connection, subject.removeprefix("edges:"))
            self._note(connection, "cap", {"subject": subject, "resource": resource, "cap": cap})
        return Account(subject, resource, cap, used)

    def account(self, subject: str, resource: str = EPSILON) -> Account | None:
        """One account, or None."""
        statement = "SELECT subject, resource, cap, used FROM accounts WHERE subject = :s AND resource = :r"
        with self.database.read() as connection:
            row = connection.execute(text(statement), {"s": subject, "r": resource}).first()
        return None if row is None else Account(*row)

    def accounts(self, resource: str) -> list[Account]:
        """All accounts of one resource."""
        statement = "SELECT subject, resource, cap, used FROM accounts WHERE resource = :r ORDER BY subject"
        with self.database.read() as connection:
            return [Account(*row) for row in connection.execute(text(statement), {"r": resource})]

    # -- edge sets ------------------------------------------------------------------------------------------------

    def declare(
        self, name: str, *, tenants: frozenset[str] | None = None, apart: frozenset[str] = frozenset()
    ) -> EdgeSet:
        """Bind an edge set to tenants (nobody named: everybody), or note the owner's word that it shares no edge.

        The word counts only where the ledger cannot look: edges that it can compare are compared.
        """
        with self._entry() as connection:
            _insert_edge_set(connection, name)
            old = contents.read_shelf(connection).sets[name]
            new = replace(old, tenants=old.tenants if tenants is None else tenants, apart=old.apart | apart)
            if new != old:
                facts = {"tenants": json.dumps(sorted(new.tenants)), "apart": json.dumps(sorted(new.apart))}
                statement = "UPDATE edge_sets SET tenants = :tenants, apart = :apart WHERE name = :n"
                connection.execute(text(statement), {**facts, "n": name})
                self._note(connection, "edge set", {"name": name, **facts})
        return new

    def edge_sets(self) -> dict[str, EdgeSet]:
        """All edge sets by name."""
        with self.database.read() as connection:
            return contents.read_shelf(connection).sets

    def overlaps(self) -> list[list[str]]:
        """Names that share at least one edge, as far as the ledger can see."""
        with self.database.read() as connection:
            return sorted(sorted(p) for p in contents.read_shelf(connection).patterns if len(p) > 1)

    def bills(self) -> dict[str, Bill]:
        """What any one edge of each edge set has paid at most."""
        with self.database.read() as connection:
            shelf = contents.read_shelf(connection)
        return bills(shelf.holdings(), shelf.patterns)

    # -- spending -------------------------------------------------------------------------------------------------

    def quote(self, tenant: str, edge_set: str, epsilon: float | Fraction) -> Quote:
        """What `spend` would charge and whether it would be allowed now; no side effect."""
        amount, view, allowed = to_units(epsilon), {}, True
        bill = self.bills().get(edge_set, Bill())
        for subject in _subjects(tenant, edge_set):
            account = self.account(subject) or Account(subject, EPSILON, 0, 0)
            mine = subject.startswith("edges:")
            spent = bill.epsilon if mine else account.used
            allowed = allowed and amount + spent <= account.cap
            allowed = allowed and not (mine and bill.unbounded and account.cap < UNLIMITED)
            facts = {"cap": account.cap, "spent": spent, "left": max(0, account.cap - spent)}
            view[subject] = {name: float(from_units(value)) for name, value in facts.items()}
        return Quote(float(from_units(amount)), allowed, view)

    def spend(
        self,
        *,
        tenant: str,
        key_id: str,
        what: str,
        edge_set: str,
        epsilon: float | Fraction,
        token: str,
        digest: str,
        delta: float | Fraction = 0,
        unbounded: str = "",
        edges: EdgeHashes | None = None,
        large: bool = False,
        dry: bool = False,
    ) -> Spend:
        """Charge epsilon and delta, or find the charge this token made; raises and charges nothing if a cap breaks.

        `digest` identifies the request: a token that returns with another request is refused. `edges` are the edges
        that are told about; None when nobody knows them (`large`: there are too many), and overlap is assumed. `dry`
        only finds out whether the charge would be refused.
        """
        charge: dict[str, Any] = {
            "id": secrets.token_hex(12), "tenant": tenant, "key": key_id, "what": what[:200], "set": edge_set,
            "token": token, "digest": digest, "amount": to_units(epsilon), "delta": delta_to_units(delta),
            "unbounded": unbounded[:160],
        }  # fmt: skip
        why = LARGE if large else UNKNOWN
        ahead = self._look_ahead(edge_set, edges)
        try:
            with self._entry() as connection:
                spend = self._spend(connection, charge, edges, why, ahead)
                if dry:
                    raise _Undo(spend)
                return spend
        except _Undo as undone:
            return undone.spend
        except IntegrityError:  # another process used the token, or a cap check of the database fired
            with self.database.read() as connection:
                found = _charge(connection, tenant, token, digest)
            if found is None:
                raise LedgerUnavailable("the database refused the charge") from None
            return found

    def _look_ahead(self, edge_set: str, edges: EdgeHashes | None) -> Content | None:
        """Compare hashes before the write lock is taken; a large graph needs seconds."""
        if edges is None:
            return None
        with self.database.read() as connection:
            return contents.merge(connection, contents.read_shelf(connection), edge_set, edges)

    def _spend(
        self, connection: Connection, row: dict[str, Any], edges: EdgeHashes | None, why: str, ahead: Content | None
    ) -> Spend:
        found = _charge(connection, row["tenant"], row["token"], row["digest"])
        if found is not None:
            return found
        _insert_edge_set(connection, row["set"])
        shelf = contents.read_shelf(connection)
        _check_tenant(shelf.sets[row["set"]], row["tenant"])
        content = self._content(connection, shelf, row, edges, why, ahead)
        after = shelf.charged(row["set"], row["amount"], row["delta"], row["unbounded"], content)
        _check_edges(connection, shelf, after, row)
        _charge_accounts(connection, row)
        contents.store(connection, row["set"], content, after.sets[row["set"]].unbounded)
        now = self.database.now(connection, keep=True)
        connection.execute(
            text(
                "INSERT INTO charges (id, at, tenant, key_id, what, edge_set, amount, delta, unbounded, token, digest, "
                "entry, status) VALUES (:id, :at, :tenant, :key, :what, :set, :amount, :delta, :unbounded, :token, "
                ":digest, :entry, 'charged')"
            ),
            {**row, "at": now, "entry": chain.current(connection).entry + 1},
        )
        self._note(connection, "charge", charge_facts({**row, "at": now, "edge_set": row["set"]}))
        return Spend(row["id"], row["amount"], row["set"], "charged", True, row["delta"], row["unbounded"])

    def _content(
        self, connection: Connection, shelf: Shelf, row: Mapping[str, Any], edges: EdgeHashes | None, why: str,
        ahead: Content | None,
    ) -> Content:  # fmt: skip
        name, now = row["set"], contents.version(connection)
        if _free(row):
            old = shelf.sets[name]
            return Content(old.identity, old.edges, None, frozenset(p for p in shelf.patterns if name in p), now)
        if ahead is not None and ahead.version == now:
            return ahead
        return contents.merge(connection, shelf, name, edges, why)

    def settle(self, charge_id: str, status: str, product: str = "") -> None:
        """Note how a charge ended (``done`` or ``failed``; a failed one stays charged) and what came of it."""
        with self.database.write() as connection:
            statement = "UPDATE charges SET status = :s, product = :p WHERE id = :i"
            connection.execute(text(statement), {"s": status, "i": charge_id, "p": product})

    def charges(self, edge_set: str | None = None) -> list[dict[str, Any]]:
        """All charges, oldest first."""
        where = "" if edge_set is None else " WHERE edge_set = :e"
        with self.database.read() as connection:
            rows = connection.execute(
                text(f"SELECT * FROM charges{where} ORDER BY at, entry, id"), {"e": edge_set} if where else {}
            )
            return [dict(row._mapping) for row in rows]

    def of_product(self, product: str, tenant: str | None = None) -> Spend | None:
        """The charge that made a release (for one tenant, if named), if it was made under this ledger."""
        statement = "SELECT id, amount, edge_set, status, delta, unbounded FROM charges WHERE product = :p"
        own = "" if tenant is None else " AND tenant = :t"
        with self.database.read() as connection:
            row = connection.execute(text(f"{statement}{own} ORDER BY at"), {"p": product, "t": tenant}).first()
        return None if row is None else _found(row)

    def head(self) -> chain.Head:
        """The end of the journal."""
        with self.database.read() as connection:
            return chain.current(connection)

    def check_head(self, known: chain.Head, where: str) -> None:
        """Refuse to go on when this ledger is older than a head that survived elsewhere."""
        with self.database.read() as connection:
            chain.check(connection, known, where)

    def close(self) -> None:
        """Give all connections back."""
        self.database.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def charge_facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the journal keeps of a charge; the same from the row in the table."""
    return {key: row[key] for key in ("id", "at", "tenant", "what", "edge_set", "amount", "delta", "unbounded")}


def _subjects(tenant: str, edge_set: str) -> list[str]:
    return [f"edges:{edge_set}", f"tenant:{tenant}"]


def _insert_edge_set(connection: Connection, name: str) -> None:
    connection.execute(text("INSERT INTO edge_sets (name) VALUES (:n) ON CONFLICT (name) DO NOTHING"), {"n": name})


def _check_tenant(edge_set: EdgeSet, tenant: str) -> None:
    if edge_set.tenants and tenant != OWNER and tenant not in edge_set.tenants:
        raise InputError(f"edge set {edge_set.name!r} is bound to other tenants than {tenant!r}; ask the operator")


def _free(row: Mapping[str, Any]) -> bool:
    """Nothing about edges is told."""
    return not (row["amount"] or row["delta"] or row["unbounded"])


def _check_edges(connection: Connection, before: Shelf, after: Shelf, row: Mapping[str, Any]) -> None:
    """Every edge set whose bill this charge raises must keep its caps: its own, and those that share its edges."""
    if _free(row):
        return
    old, new = bills(before.holdings(), before.patterns), bills(after.holdings(), after.patterns)
    raised = sorted(name for name in new if name == row["set"] or new[name] != old[name])
    subjects = [f"edges:{name}" for name in raised]
    caps = accounts.locked(connection, subjects, EPSILON)
    deltas = accounts.locked(connection, subjects, DELTA)
    for name, subject in zip(raised, subjects, strict=True):
        cap = caps[subject].cap if subject in caps else 0
        delta_cap = deltas[subject].cap if subject in deltas else DELTA_CAP
        if new[name].unbounded and cap < UNLIMITED:
            raise UnboundedSpend(subject, from_units(cap), new[name].unbounded)
        _check(EPSILON, cap, old[name].epsilon, new[name].epsilon, f"{row['what']} on account {subject}")
        _check(DELTA, delta_cap, old[name].delta, new[name].delta, f"{row['what']} on account {subject}")


def _check(resource: str, cap: int, before: int, after: int, what: str) -> None:
    if after <= cap or after == before:
        return
    convert = from_units if resource == EPSILON else from_delta_units
    error = BudgetExceeded(convert(cap), convert(before), convert(after - before), what)
    error.args = (str(error).replace("asks for epsilon", f"asks for {resource}"),)
    raise error


def _charge_accounts(connection: Connection, row: Mapping[str, Any]) -> None:
    """Add to both accounts. A tenant's delta has no cap of its own: it may concern different edges."""
    edges, tenant = _subjects(row["tenant"], row["set"])
    accounts.insert(connection, [edges], DELTA, DELTA_CAP)
    accounts.insert(connection, [tenant], DELTA, UNLIMITED)
    for resource, amount in ((EPSILON, row["amount"]), (DELTA, row["delta"])):
        held = accounts.locked(connection, sorted([edges, tenant]), resource)
        mine = held.get(tenant) or Account(tenant, resource, 0, 0)
        if row["unbounded"] and mine.cap < UNLIMITED:
            raise UnboundedSpend(tenant, from_units(mine.cap), row["unbounded"])
        _check(resource, mine.cap, mine.used, mine.used + amount, f"{row['what']} on account {tenant}")
        rows = [{"s": a.subject, "used": a.used + amount, "cap": a.cap} for a in held.values()]
        accounts.update(connection, resource, rows)


def _charge(connection: Connection, tenant: str, token: str, digest: str) -> Spend | None:
    statement = (
        "SELECT id, amount, edge_set, status, digest, delta, unbounded FROM charges WHERE tenant = :t AND token = :k"
    )
    row = connection.execute(text(statement), {"t": tenant, "k": token}).first()
    if row is None:
        return None
    if row.digest != digest:
        raise TokenReused("this Idempotency-Key was used for a different request; choose a new one")
    return _found(row)


def _found(row: Any) -> Spend:
    return Spend(row.id, row.amount, row.edge_set, row.status, False, row.delta, row.unbounded)
