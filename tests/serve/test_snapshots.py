"""Snapshots spend epsilon, once, before anything is computed, and never two answers for one charge."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences import renew as renew_module
from edgeveil.defences.renew import renew, renewal_epsilon
from edgeveil.errors import BudgetExceeded, InputError, StorageError, UsageError
from edgeveil.privacy.ledger.units import to_units
from edgeveil.serve.config import load_settings
from edgeveil.serve.server_ledger import Ledger
from edgeveil.serve.snapshots import SnapshotRequest, Snapshots


def body(graph: ev.Graph, **more: Any) -> dict[str, Any]:
    return {"name": "monday", "num_nodes": graph.num_nodes, "edges": graph.edge_index.T.tolist(), **more}


def test_renew_answers_for_the_new_graph(graph: ev.Graph, noisy_release: ev.Release) -> None:
    other = graph.with_edges(np.array([[0, 1, 2], [5, 6, 7]])).with_features(None)
    sure = renew(noisy_release, other, epsilon=20000.0)  # so much epsilon that the noise vanishes
    assert sure.guarantee.epsilon == 20002.0 and sure.guarantee.randomness == "operating-system entropy"
    exact = noisy_release.predictor.__class__(
        noisy_release.predictor.spec, noisy_release.predictor.model, other.adjacency
    )
    np.testing.assert_allclose(sure.predict(), exact.logits(noisy_release.matrix), rtol=1e-9)
    assert (renew(noisy_release, graph).predict() != renew(noisy_release, graph).predict()).any()
    np.testing.assert_array_equal(
        renew(noisy_release, graph, seed=1).predict(), renew(noisy_release, graph, seed=1).predict()
    )


def test_renew_lpgnet_and_mlp(graph: ev.Graph) -> None:
    lpgnet = ev.defend(graph, "lpgnet", epsilon=3.0, layers=2, seed=0)
    fresh = renew(lpgnet, graph.with_features(None), epsilon=1000.0)
    assert [v.shape for v in fresh.predictor.vectors] == [v.shape for v in lpgnet.predictor.vectors]
    degrees = fresh.predictor.vectors[0].sum(axis=1)
    np.testing.assert_allclose(degrees, graph.degrees, atol=3)
    assert fresh.guarantee.epsilon == 1003.0  # an edge of both graphs has paid for the weights too
    assert [(c.on, c.epsilon) for c in fresh.guarantee.charges][-2:] == [("snapshot", 500), ("snapshot", 500)]
    assert sum(c.epsilon for c in fresh.guarantee.charges) == 1003
    with pytest.raises(InputError, match="finite"):
        renew(lpgnet, graph.with_features(None), epsilon=float("inf"))
    mlp = ev.defend(graph, "mlp", seed=0)
    assert renewal_epsilon(mlp) == 0
    np.testing.assert_allclose(renew(mlp, graph.with_features(None)).predict(), mlp.predict())
    with pytest.raises(InputError, match="no sound guarantee"):
        renewal_epsilon(ev.defend(graph, "none", seed=0))
    with pytest.raises(InputError, match="columns"):
        renew(lpgnet, graph.with_features(np.zeros((80, 3))))


def test_quote_then_spend_then_exhausted(live: Callable[..., Any], graph: ev.Graph, noisy_release: ev.Release) -> None:
    server = live(noisy_release, epsilon_cap=4.0, guard={"action": "off"}, output="logits")
    key = server.key(role="curate", epsilon=1.5)
    quote = server.post("/v1/quote", key, json={"epsilon": 1.0}).json()
    assert quote["allowed"] and quote["epsilon"] == 1.0 and quote["query_epsilon"] == 0
    assert quote["accounts"]["edges:graph"] == {"cap": 4.0, "spent": 2.0, "left": 2.0}
    made = server.post("/v1/snapshots", key, json=body(graph, epsilon=1.0)).json()
    assert made["epsilon"] == 1.0 and made["guarantee"]["epsilon"] == 3.0 and not made["already_charged"]
    assert server.service.ledger.account("edges:graph").used == to_units(3.0)
    ask = {"nodes": [0, 1], "snapshot": made["id"]}
    first = server.post("/v1/predict", key, json=ask).json()
    again = server.post("/v1/predict", key, json=ask).json()
    assert first == again and first["charged"]["epsilon"] == 0  # stored: free, and always the same
    assert server.client.get("/v1/guarantee", params={"snapshot": made["id"]}, headers=key).json()["guarantee"]
    refused = server.post("/v1/snapshots", key, json=body(graph, epsilon=0.6))
    assert refused.status_code == 409 and refused.json()["error"]["code"] == "budget_exceeded"
    assert refused.json()["error"]["short"] == pytest.approx(0.1)
    assert server.service.ledger.account("edges:graph").used == to_units(3.0)
    listed = server.client.get("/v1/snapshots", headers=key).json()["snapshots"]
    assert [row["id"] for row in listed] == [made["id"]]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"epsilon": -1}, 422, "bad_input"),
        ({"epsilon": "NaN"}, 422, "bad_input"),
        ({"edges": [[0, 999]]}, 422, "unknown_node"),
        ({"edges": [[0, -1]]}, 422, "bad_input"),
        ({"num_nodes": 500}, 422, "bad_shape"),
        ({"num_nodes": 0}, 422, "bad_input"),
        ({"num_nodes": None}, 422, "bad_input"),  # never counted from the edges
        ({"num_nodes": 2**31}, 422, "bad_shape"),
        ({"edges": [[0, 10**30]]}, 422, "bad_input"),
        ({"features": [[1.0]]}, 422, "bad_shape"),
        ({"features": [[1.0]] * 80}, 422, "bad_shape"),
        ({"edge_set": "mine-own"}, 422, "unknown_edge_set"),
        ({"name": "<script>"}, 422, "bad_input"),
    ],
)  # fmt: skip
def test_bad_snapshots_charge_nothing(
    standing: Callable[..., Any],
    graph: ev.Graph,
    noisy_release: ev.Release,
    change: dict[str, Any],
    status: int,
    code: str,
) -> None:
    server = standing(noisy_release, epsilon_cap=9.0)
    key = server.key(role="curate", epsilon=5.0)
    answer = server.post("/v1/snapshots", key, json={**body(graph, epsilon=1.0), **change})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert server.service.ledger.account("edges:graph").used == to_units(2.0)
    assert server.service.ledger.account("tenant:bob").used == 0


def test_a_graph_that_grew_by_a_node_pays_for_its_old_edges_again(
    live: Callable[..., Any], graph: ev.Graph, noisy_release: ev.Release
) -> None:
    """The old edges with one node and one edge more: the edge set's bill and the stated epsilon are the sum."""
    server = live(noisy_release, epsilon_cap=4.0)
    key, n = server.key(role="curate", epsilon=5.0), graph.num_nodes
    features = np.vstack([noisy_release.matrix.toarray(), noisy_release.matrix.toarray()[:1]]).tolist()
    grown = {**body(graph, epsilon=1.5), "num_nodes": n + 1, "features": features}
    grown["edges"] = [*grown["edges"], [0, n]]
    made = server.post("/v1/snapshots", key, json=grown).json()
    assert made["guarantee"]["epsilon"] == 3.5 and "snapshot" in made["guarantee"]["composition"]
    assert server.service.ledger.bills()["graph"].epsilon == to_units(3.5)
    assert server.post("/v1/snapshots", key, json={**grown, "epsilon": 0.6}).status_code == 409


def test_npz_snapshot_with_other_nodes(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    server = live(noisy_release, epsilon_cap=9.0, edge_sets={"annex": 1.0})
    key = server.key(role="curate", epsilon=5.0)
    buffer = io.BytesIO()
    np.savez(
        buffer, name=np.array("annex"), num_nodes=np.array(7), edges=np.array([[0, 1], [1, 2]]),
        features=np.ones((7, 12)), epsilon=np.array(1.0), edge_set=np.array("annex"),
    )  # fmt: skip
    headers = {**key, "content-type": "application/x-npz"}
    made = server.post("/v1/snapshots", headers, content=buffer.getvalue()).json()
    assert made["num_nodes"] == 7
    assert server.service.ledger.account("edges:annex").used == to_units(1.0)
    assert server.service.ledger.account("edges:graph").used == to_units(2.0)
    everyone = server.post("/v1/predict", key, json={"answer_all": True, "snapshot": made["id"]}).json()
    assert len(everyone["nodes"]) == 7
    over = server.post("/v1/snapshots", headers, content=buffer.getvalue())
    assert over.status_code == 409


def test_the_same_token_is_one_charge_and_one_answer(
    live: Callable[..., Any], graph: ev.Graph, noisy_release: ev.Release
) -> None:
    server = live(noisy_release, epsilon_cap=3.0)
    key = server.key(role="curate", epsilon=5.0) | {"idempotency-key": "monday-0001"}
    answers: list[Any] = []

    def client() -> None:
        answers.append(server.post("/v1/snapshots", key, json=body(graph, epsilon=1.0)).json())

    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({answer["id"] for answer in answers}) == 1
    assert sum(not answer["already_charged"] for answer in answers) == 1
    assert server.service.ledger.account("edges:graph").used == to_units(3.0)
    other = server.post("/v1/snapshots", key, json=body(graph, epsilon=0.5))
    assert other.json()["error"]["code"] == "token_reused"


def snapshots(release: ev.Release, ledger: Ledger, folder: Path, cap: float = 9.0) -> Snapshots:
    found = Snapshots(release, ledger, folder, "graph", {"graph": cap})
    found.open()
    ledger.open_account("tenant:t", "epsilon", to_units(9.0))
    return found


def test_a_crash_between_charge_and_answer_goes_on_with_the_same_charge(
    graph: ev.Graph, noisy_release: ev.Release, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = snapshots(noisy_release, ledger, tmp_path / "s")
    request = SnapshotRequest("a", np.asarray(graph.edge_index), graph.num_nodes, epsilon=1.0)

    def dies(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("edgeveil.serve.snapshots.renew", dies)
    with pytest.raises(KeyboardInterrupt):
        store.create(request, tenant="t", key_id="k", token="token-1")
    assert ledger.account("edges:graph").used == to_units(3.0)
    monkeypatch.setattr("edgeveil.serve.snapshots.renew", renew_module.renew)
    again = snapshots(noisy_release, ledger, tmp_path / "s")
    row, spend = again.create(request, tenant="t", key_id="k", token="token-1")
    assert not spend.fresh and ledger.account("edges:graph").used == to_units(3.0)
    first = again.engine(row["id"]).base
    repeat, _ = again.create(request, tenant="t", key_id="k", token="token-1")
    assert repeat["id"] == row["id"]
    reopened = snapshots(noisy_release, ledger, tmp_path / "s")
    np.testing.assert_array_equal(reopened.engine(row["id"]).base, first)


def test_a_failed_computation_stays_charged(
    graph: ev.Graph, noisy_release: ev.Release, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = snapshots(noisy_release, ledger, tmp_path / "s")
    request = SnapshotRequest("a", np.asarray(graph.edge_index), graph.num_nodes, epsilon=1.0)

    def fails(*_: Any, **__: Any) -> Any:
        raise StorageError("disk full")

    monkeypatch.setattr("edgeveil.serve.snapshots.renew", fails)
    with pytest.raises(StorageError):
        store.create(request, tenant="t", key_id="k", token="token-1")
    assert sorted(c["status"] for c in ledger.charges()) == ["charged", "failed"]
    assert ledger.account("edges:graph").used == to_units(3.0)
    assert store.list() == []


def test_a_swapped_snapshot_is_not_served(
    graph: ev.Graph, noisy_release: ev.Release, ledger: Ledger, tmp_path: Path
) -> None:
    store = snapshots(noisy_release, ledger, tmp_path / "s")
    request = SnapshotRequest("a", np.asarray(graph.edge_index), graph.num_nodes, epsilon=1.0)
    row, _ = store.create(request, tenant="t", key_id="k", token="token-1")
    renew(noisy_release, graph).save(tmp_path / "s" / row["id"])
    with pytest.raises(StorageError, match="not the snapshot"):
        store.engine(row["id"])


def test_an_older_ledger_keeps_the_server_down(
    graph: ev.Graph, noisy_release: ev.Release, ledger: Ledger, tmp_path: Path
) -> None:
    noisy_release.save(tmp_path / "s" / "0123456789abcdef01234567")
    with pytest.raises(StorageError, match="older than the data"):
        snapshots(noisy_release, ledger, tmp_path / "s")


def test_the_release_is_charged_once_and_a_second_one_needs_a_higher_cap(
    graph: ev.Graph, noisy_release: ev.Release, ledger: Ledger, tmp_path: Path
) -> None:
    for _ in range(2):
        Snapshots(noisy_release, ledger, tmp_path / "s", "graph", {"graph": None}).open()
    assert ledger.account("edges:graph").used == to_units(2.0)
    second = ev.defend(graph, "lapgraph", epsilon=2.0, model="gcn")
    with pytest.raises(BudgetExceeded):
        Snapshots(second, ledger, tmp_path / "s", "graph", {"graph": None}).open()
    Snapshots(second, ledger, tmp_path / "s", "graph", {"graph": 4.0}).open()
    assert ledger.account("edges:graph").used == to_units(4.0)


def test_seeded_noise_and_open_addresses_are_refused(graph: ev.Graph, tmp_path: Path) -> None:
    from edgeveil.serve.service import Service

    seeded = ev.defend(graph, "lapgraph", epsilon=2.0, seed=0)
    with pytest.raises(UsageError, match="seeded"):
        Service(load_settings(release=tmp_path, state=tmp_path / "s"), seeded)
    real = ev.defend(graph, "mlp", seed=0)
    with pytest.raises(UsageError, match="loopback"):
        Service(load_settings(release=tmp_path, state=tmp_path / "s", host="192.0.2.1"), real)


@pytest.mark.timeout(120)
def test_first_requests_after_a_cold_start_find_every_method(
    command: Callable[..., Any], noisy_release: ev.Release, graph: ev.Graph
) -> None:
    server = command(noisy_release, "--epsilon-cap", "20")
    key = server.key("alice", "curate", epsilon=15.0)

    def ask(i: int) -> int:
        with httpx.Client(base_url=server.url, headers=key, timeout=60, trust_env=False, verify=False) as client:
            return client.post("/v1/snapshots", json=body(graph, name=f"s{i}", epsilon=1.0)).status_code

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(ask, range(12))) == [200] * 12


@pytest.mark.parametrize("epsilon", [1e-300, 1e-7, 0.0, -1.0, 1e7])
def test_an_epsilon_no_mechanism_can_have_is_refused(
    standing: Callable[..., Any], noisy_release: ev.Release, graph: ev.Graph, epsilon: float
) -> None:
    server = standing(noisy_release, epsilon_cap=10.0)
    key = server.key("alice", "curate", epsilon=5.0)
    answer = server.post("/v1/snapshots", key, json=body(graph, epsilon=epsilon))
    assert answer.status_code == 422 and "epsilon" in answer.json()["error"]["message"]
    assert server.service.ledger.account("tenant:alice").used == 0


def test_the_smallest_epsilon_works(live: Callable[..., Any], noisy_release: ev.Release, graph: ev.Graph) -> None:
    server = live(noisy_release, epsilon_cap=10.0)
    answer = server.post("/v1/snapshots", server.key("alice", "curate", epsilon=5.0), json=body(graph, epsilon=1e-6))
    assert answer.status_code == 200


def test_a_snapshot_belongs_to_its_tenant_unless_shared(
    live: Callable[..., Any], noisy_release: ev.Release, graph: ev.Graph
) -> None:
    server = live(noisy_release, epsilon_cap=10.0)
    alice, bob = server.key("alice", "curate", epsilon=5.0), server.key("bob", "query")
    operator = server.key("root", "admin")
    mine = server.post("/v1/snapshots", alice, json=body(graph, epsilon=1.0)).json()
    ours = server.post("/v1/snapshots", alice, json=body(graph, name="ours", epsilon=1.0, shared=True)).json()
    assert (mine["shared"], ours["shared"], mine["tenant"]) == (False, True, "alice")

    def seen(key: dict[str, str]) -> list[str]:
        return [row["id"] for row in server.client.get("/v1/snapshots", headers=key).json()["snapshots"]]

    for _ in range(2):  # from disk, then from memory
        asked = {key: server.post("/v1/predict", who, json={"nodes": [1], "snapshot": mine["id"]})
                 for key, who in (("bob", bob), ("alice", alice), ("operator", operator))}  # fmt: skip
        assert {key: answer.status_code for key, answer in asked.items()} == {"bob": 404, "alice": 200, "operator": 200}
        assert server.post("/v1/predict", bob, json={"nodes": [1], "snapshot": ours["id"]}).status_code == 200
    unknown = server.post("/v1/predict", bob, json={"nodes": [1], "snapshot": "0" * 24}).json()["error"]
    assert asked["bob"].json()["error"]["code"] == unknown["code"]
    assert server.client.get(f"/v1/guarantee?snapshot={mine['id']}", headers=bob).status_code == 404
    assert seen(bob) == [ours["id"]] and len(seen(alice)) == len(seen(operator)) == 2


def test_scratch_folders_of_a_killed_process_go(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    folder = live(noisy_release).settings.state / "snapshots"
    old, new = folder / ".abc-1", folder / ".abc-2"
    for path in (old, new):
        path.mkdir(parents=True)
    os.utime(old, (1, 1))
    live(noisy_release)
    assert not old.exists() and new.exists()
