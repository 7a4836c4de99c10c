"""What must be on record before anything is answered: full disks, ledgers put back, releases without a bound."""

from __future__ import annotations

import asyncio
import json
import resource
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import edgeveil as ev
from edgeveil.defences.renew import renew
from edgeveil.errors import StorageError, UsageError
from edgeveil.privacy.ledger import open_ledger
from edgeveil.privacy.ledger.ledger import UnboundedSpend
from edgeveil.privacy.ledger.units import to_units
from edgeveil.serve.config import load_settings
from edgeveil.serve.leases import Leases
from edgeveil.serve.pages import _epsilon
from edgeveil.serve.problems import AuditUnavailable
from edgeveil.serve.server_ledger import Ledger
from edgeveil.serve.service import Service


def lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of an audit log."""
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # torn by the full disk
            continue
    return found


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("error", {}).get("code", "")


def test_a_full_disk_lets_no_answer_leave_unlogged(
    command: Callable[..., Any], noisy_release: ev.Release, tmp_path: Path
) -> None:
    server = command(noisy_release)
    key, ask = server.key(queries=10_000), {"nodes": [0]}
    log = next(tmp_path.rglob("audit.jsonl"))
    with httpx.Client(base_url=server.url, headers=key, timeout=30, trust_env=False, verify=False) as client:
        assert client.post("/v1/predict", json=ask).status_code == 200
        assert client.get("/readyz").status_code == 200
        _, most = resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE)
        limit = log.stat().st_size + 500
        resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (limit, most))
        states = [client.post("/v1/predict", json=ask).status_code for _ in range(40)]
        assert states[-1] == 503
        answered = [r for r in lines(log) if r["event"] == "request" and r["route"] == "/v1/predict"]
        assert sum(r["status"] == 200 for r in answered) == 1 + states.count(200)
        assert code(client.get("/readyz"))[0] == 503
        assert client.get("/healthz").status_code == 200
        resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (most, most))
        assert client.post("/v1/predict", json=ask).status_code == 200
        assert client.get("/readyz").status_code == 200
    assert lines(log)[-1]["status"] == 200  # a torn line does not swallow the next one


def test_an_audit_log_that_was_never_writable_keeps_the_server_down(tmp_path: Path, noisy_release: ev.Release) -> None:
    given = load_settings(release=tmp_path / "r", state=tmp_path / "s", audit_log=Path("/dev/full"))
    service = Service(given, noisy_release)
    with pytest.raises(AuditUnavailable, match="No space left"):
        service.open()
    service.database.close()


def test_a_ledger_that_can_only_be_read_is_not_ready(live: Callable[..., Any], tmp_path: Path) -> None:
    server = live(ledger_timeout=0.5)
    assert server.client.get("/readyz").status_code == 200
    server.service._ready_at = -1e9
    other = sqlite3.connect(tmp_path / "state" / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert code(server.client.get("/readyz")) == (503, "ledger_unavailable")
    other.execute("ROLLBACK")
    other.close()
    assert server.client.get("/readyz").status_code == 200


def start(folder: Path, release: ev.Release, **given: Any) -> Service:
    """A server's service, opened; the caller stops it."""
    service = Service(load_settings(release=folder / "release", state=folder / "state", **given), release)
    try:
        service.open()
    except BaseException:
        service.database.close()
        service.audit.close()
        raise
    return service


def stop(service: Service) -> None:
    asyncio.run(service.close())


def test_an_older_ledger_put_back_keeps_the_server_down(tmp_path: Path, noisy_release: ev.Release) -> None:
    service = start(tmp_path, noisy_release)
    service.keys.add("bob", "query", queries=100)
    stop(service)
    state, kept = tmp_path / "state", tmp_path / "kept"
    shutil.copytree(state, kept)
    service = start(tmp_path, noisy_release)  # ahead of its head, as usual
    service.ledger.lease("tenant:bob", 5, "w")
    stop(service)

    def put_back() -> None:
        for file in state.glob("ledger.db*"):
            file.unlink()
        for file in kept.glob("ledger.db*"):
            shutil.copy2(file, state)

    put_back()
    head = tmp_path / "release.ledger-head"
    with pytest.raises(StorageError, match=r"older than what it once recorded.*release\.ledger-head"):
        start(tmp_path, noisy_release)
    head.unlink()
    with pytest.raises(StorageError, match=r"older than what it once recorded.*audit\.jsonl"):
        start(tmp_path, noisy_release)
    shutil.rmtree(state)
    stop(start(tmp_path / "elsewhere", noisy_release))
    shutil.copy(tmp_path / "elsewhere" / "release.ledger-head", head)
    with pytest.raises(StorageError, match="knows nothing of what that one granted"):
        start(tmp_path, noisy_release)


def test_serving_without_a_bound_marks_the_edges_for_ever(
    tmp_path: Path, plain_release: ev.Release, noisy_release: ev.Release
) -> None:
    with pytest.raises(UnboundedSpend, match="no guarantee for edges"):
        start(tmp_path, plain_release, epsilon_cap=8.0)
    service = start(tmp_path / "open", plain_release)
    assert service.ledger.bills()["graph"].unbounded
    assert b'edgeveil_epsilon_spent{account="edges:graph"} +Inf' in service.refresh_metrics()
    assert "unbounded for ever" in _epsilon(service.standing(), {"edges:graph": "no guarantee for edges"})
    stop(service)
    service = start(tmp_path / "open", noisy_release)  # nobody set a cap: served, and the mark stays
    assert service.ledger.bills()["graph"].unbounded == "graph: no guarantee for edges"
    stop(service)
    with pytest.raises(UnboundedSpend):
        start(tmp_path / "open", renew(noisy_release, make_named(), epsilon=1.0), epsilon_cap=100.0)


def make_named() -> ev.Graph:
    from conftest import make_graph

    return make_graph().with_features(None)


def test_a_release_made_under_the_ledger_is_known_to_the_server(graph: ev.Graph, tmp_path: Path) -> None:
    path = tmp_path / "state" / "ledger.db"
    path.parent.mkdir()
    release = ev.defend(graph, "lapgraph", epsilon=2.0, ledger=path, edge_set="people")
    service = start(tmp_path, release)
    assert service.snapshots.edge_set == "people" and len(service.ledger.charges()) == 1
    assert service.ledger.account("edges:people").cap == to_units(2.0)  # without a cap of the operator: no more
    stop(service)
    with pytest.raises(UsageError, match="recorded as edge set 'people'"):
        start(tmp_path, release, edge_set="graph")
    with open_ledger(path) as ledger:
        assert ledger.bills()["people"].epsilon == to_units(2.0)


@pytest.mark.parametrize(("limit", "most"), [(100, 16), (1000, 16), (5000, 50), (10**6, 256)])
def test_a_crash_costs_a_hundredth_or_sixteen_queries(ledger: Ledger, limit: int, most: int) -> None:
    ledger.open_account("tenant:t", "queries", limit)
    leases = Leases(ledger, block=256)

    async def run() -> None:
        for answered in range(1, 80):
            await leases.take("t")
            await asyncio.sleep(0)
            for task in list(leases._ahead.values()):
                await task
            lost = ledger.account("tenant:t", "queries").used - answered  # what a kill would lose now
            assert 0 <= lost == leases.held("t") <= most

    asyncio.run(run())
