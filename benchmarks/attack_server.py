"""Attacks on a running server: link stealing under several guards, and what clients without a key can break.

Every row is a fresh `edgeveil serve` on 127.0.0.1 with its own state folder. The release is a plain GCN without defence
that answers logits, the worst case. F1 at the true number of edges among the attacked nodes; answers that the server
refuses, or gives as if each node's own row alone had changed, count as "no change seen".

    python benchmarks/attack_server.py [--quick] [--sets N] [--write-docs] [--afresh]

A full run keeps every measurement in benchmarks/attack_server.jsonl and goes on from there when it was interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import weakref
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from scipy.optimize import nnls

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "guard.md"
MARKS = "<!-- server: begin -->", "<!-- server: end -->"
NPZ = "application/x-npz"
GUARDS = {
    "off": 'changed_features = true\n[guard]\naction = "off"\n',
    "8 cross-readings": "changed_features = true\n[guard]\ncross_readings = 8\ncross_readings_all = 8\nDETECTORS",
    "2 cross-readings": "changed_features = true\n[guard]\ncross_readings = 2\ncross_readings_all = 2\nDETECTORS",
    "opened, defaults": "changed_features = true\n",
    "defaults (closed)": "",
}
BODY = 2**27  # room for all of Cora's features in one question
DETECTORS = (
    "single_limit = 100000\ngrouped_limit = 100000\nscan_limit = 100000\nshared_limit = 100000\ncross_limit = 100000\n"
)


@dataclass
class Server:
    """The command as a process, its keys, and a client."""

    folder: Path
    release: Path
    config: str
    output: str = "logits"
    url: str = ""
    keys: dict[str, list[str]] = field(default_factory=dict)
    child: Any = None

    def start(self) -> None:
        """Start the command and wait until it is ready."""
        (self.folder / "serve.toml").write_text(self.config.replace("DETECTORS", DETECTORS))
        words = [sys.executable, "-m", "edgeveil", "serve", str(self.release), "--state", str(self.folder / "state")]
        words += ["--config", str(self.folder / "serve.toml"), "--port", "0", "--output", self.output]
        log = self.folder / f"log-{time.monotonic_ns()}"
        with log.open("wb") as out:
            self.child = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
        for _ in range(12_000):
            said = log.read_text()
            if " on http" in said and said.endswith("\n"):
                break
            if self.child.poll() is not None:
                raise SystemExit(said)
            time.sleep(0.05)
        self.url = "http" + said.split(" on http", 1)[1].split()[0]
        for _ in range(600):
            try:
                if httpx.get(f"{self.url}/readyz", trust_env=False).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise SystemExit(log.read_text())

    def stop(self) -> None:
        """An orderly stop."""
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(30)

    def key(self, tenant: str, count: int = 1) -> list[str]:
        """Keys of a tenant."""
        from edgeveil.privacy.ledger.database import Database
        from edgeveil.serve.auth import KeyStore

        have = self.keys.setdefault(tenant, [])
        database = Database(f"sqlite:///{self.folder / 'state' / 'ledger.db'}")
        while len(have) < count:
            have.append(KeyStore(database).add(tenant, "query")[0])
        database.close()
        return have


@contextmanager
def serving(release: Path, guard: str, output: str = "logits") -> Iterator[Server]:
    """A server under one of the guards."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(release, Path(folder) / "release")  # a ledger leaves its head beside the release
        server = Server(Path(folder), copy, f"max_body = {BODY}\n{GUARDS[guard]}", output)
        server.start()
        try:
            yield server
        finally:
            server.stop()


class Bob:
    """Asks about nodes with features of his own; keeps count of what he is given."""

    def __init__(self, server: Server, keys: list[str]) -> None:
        self.server, self.keys, self.turn = server, keys, 0
        self.given = self.denied = self.in_vain = 0
        self.client = httpx.Client(timeout=60, trust_env=False)
        weakref.finalize(self, self.client.close)

    def ask(self, nodes: Any, rows: Any, answer: Any) -> Any:
        """Logits (or labels) of `answer`, or None when the server refuses or answers each node alone."""
        buffer = io.BytesIO()
        pack = np.savez if rows.nbytes < 2**22 else np.savez_compressed
        pack(buffer, nodes=nodes, features=rows, answer=answer)
        headers = {
            "authorization": f"Bearer {self.keys[self.turn % len(self.keys)]}",
            "content-type": NPZ,
            "accept": NPZ,
        }
        self.turn += 1
        got = self.client.post(f"{self.server.url}/v1/predict", headers=headers, content=buffer.getvalue())
        self.in_vain += 1
        if got.status_code in (403, 429):
            self.denied += 1
            return None
        got.raise_for_status()
        with np.load(io.BytesIO(got.content)) as arrays:
            if "alone" in arrays.files:
                self.denied += 1
                return None
            self.given += 1
            self.in_vain = 0
            return np.array(arrays["labels"] if "labels" in arrays.files else arrays["values"])

    @property
    def gives_up(self) -> bool:
        """After so many denials in a row: what the server counts it never forgets."""
        return self.in_vain >= max(30, 2 * len(self.keys))

    def alone(self, nodes: Any, rows: Any) -> Any:
        """As `ask`, about the changed nodes themselves, content with what each shows of its own change."""
        buffer = io.BytesIO()
        np.savez(buffer, nodes=nodes, features=rows)
        headers = {"authorization": f"Bearer {self.keys[0]}", "content-type": NPZ, "accept": NPZ}
        got = self.client.post(f"{self.server.url}/v1/predict", headers=headers, content=buffer.getvalue())
        if got.status_code in (403, 429):
            return None
        got.raise_for_status()
        with np.load(io.BytesIO(got.content)) as arrays:
            return np.array(arrays["values"])


@dataclass(frozen=True)
class Scene:
    """What the attacker knows, and the truth he is scored against."""

    truth: Any
    features: Any
    base: Any
    nodes: Any
    rng: Any

    def f1(self, scores: Any) -> float:
        """F1 of the best pairs, as many as there are edges; pairs without a score are not guessed."""
        upper = np.triu_indices(len(self.nodes), 1)
        edges = self.truth.has_edges(self.nodes[upper[0]], self.nodes[upper[1]])
        ranked = (scores + scores.T)[upper]
        best = np.argsort(-ranked, kind="stable")[: int(edges.sum())]
        best = best[ranked[best] > 0]
        return float(2 * edges[best].sum() / (edges.sum() + len(best)))


def linkteller(scene: Scene, bob: Bob, between: Callable[[int], None] | None = None) -> Any:
    """LinkTeller with every row sent fresh: tiny noise on all, one row scaled; n + 1 questions."""
    size = len(scene.nodes)
    rows = scene.features[scene.nodes]
    scores = np.zeros((size, size))

    def question(moved: int | None) -> Any:
        noise = 1e-9 * scene.rng.standard_normal(rows.shape)
        sent = rows + noise
        if moved is not None:
            sent[moved] *= 1.001
        return bob.ask(scene.nodes, sent, scene.nodes)

    base = question(None)
    for moved in range(size):
        if between is not None:
            between(moved)
        elif bob.gives_up:
            break
        got = question(moved)
        if got is not None and base is not None:
            scores[:, moved] = np.linalg.norm(got - base, axis=1)
            scores[moved, moved] = 0
    return np.where(scores > 1e-7, scores, 0)


def labels(scene: Scene, bob: Bob) -> Any:
    """Labels alone: how often a node's label flips when another row moves far."""
    size, scores = len(scene.nodes), np.zeros((len(scene.nodes),) * 2)
    rows = scene.features[scene.nodes]
    stored = scene.base[scene.nodes].argmax(axis=1)
    reach = 3.9 * max(1.0, float(np.abs(scene.features).max()))
    for moved in range(size):
        if bob.gives_up:
            break
        for _ in range(2):
            sent = rows + 1e-9 * scene.rng.standard_normal(rows.shape)
            sent[moved] = reach * (scene.rng.random(rows.shape[1]) < 0.5)
            got = bob.ask(scene.nodes, sent, scene.nodes)
            if got is not None:
                scores[:, moved] += got != stored
        scores[moved, moved] = 0
    return scores


def flat(scene: Scene, bob: Bob, questions: int) -> Any:
    """Flat questions: all rows alike, then random moves of the attacked rows; rows of P^2 by nonnegative least squares.

    The response to a move is learnt on other nodes, whose own allowance pays for it; the posteriors are the prior.
    """
    count, size, classes = len(scene.features), len(scene.nodes), scene.base.shape[1]
    others = np.setdiff1d(np.arange(count), scene.nodes)
    largest = max(1.0, float(np.abs(scene.features).max()))
    direction = np.abs(scene.rng.standard_normal(scene.features.shape[1]))
    start = np.tile(3 * largest * direction / direction.max(), (count, 1))
    steps = scene.rng.standard_normal((classes, scene.features.shape[1]))
    steps *= 1e-3 * largest / np.linalg.norm(steps, axis=1, keepdims=True)
    everyone = np.arange(count)
    groups = np.array_split(scene.rng.permutation(others), classes)  # each is read twice: its base and one step
    response = []
    for group, step in zip(groups, steps, strict=True):
        before, after = bob.ask(everyone, start, group), bob.ask(everyone, start + step, group)
        if before is None or after is None:
            return np.zeros((size, size))
        response.append((after - before).mean(axis=0))
    base, measured, moves = bob.ask(everyone, start, scene.nodes), [], []
    for _ in range(questions - 1):
        move = scene.rng.standard_normal((size, classes))
        sent = start.copy()
        sent[scene.nodes] += move @ steps
        got = bob.ask(everyone, sent, scene.nodes)
        if got is not None and base is not None:
            measured.append((got - base) @ np.linalg.pinv(np.stack(response)))
            moves.append(move)
    if not moves:
        return np.zeros((size, size))
    return _solve(scene, np.concatenate(moves, axis=1), np.concatenate(measured, axis=1))


def flatroot(scene: Scene, bob: Bob, questions: int) -> Any:
    """The package's own flatroot through its own client, in so many questions; what it is refused, it does not see."""
    import edgeveil as ev
    from edgeveil.errors import TargetError
    from edgeveil.release.remote import HttpTarget

    scores = np.zeros((len(scene.nodes),) * 2)
    limit = 3.9 * max(1.0, float(np.abs(scene.features).max()))
    with HttpTarget(bob.server.url, key=bob.keys[0], retries=0) as target:
        try:
            found = ev.attack(target, "flatroot", nodes=scene.nodes, queries=questions, limit=limit, seed=0)
        except TargetError:
            return scores
        finally:
            bob.given = target.queries
    place = {int(node): at for at, node in enumerate(scene.nodes)}
    for (left, right), score in zip(found.pairs.T, found.scores, strict=True):
        if int(left) in place and int(right) in place:
            scores[place[int(left)], place[int(right)]] = score
    return scores


def _solve(scene: Scene, moves: Any, measured: Any) -> Any:
    prior = np.exp(4 * similarity(scene.base[scene.nodes]))
    out = np.zeros((len(scene.nodes),) * 2)
    for node in range(len(scene.nodes)):
        weight = prior[node].copy()
        weight[node] = 2 * prior[node].max()
        out[node] = nnls(moves.T * weight, measured[node], maxiter=10 * len(weight))[0] * weight
        out[node, node] = 0
    return out


def similarity(rows: Any) -> Any:
    """Correlation of rows, 0 on the diagonal."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    return (centred @ centred.T) * (1 - np.eye(len(rows)))


def own_rows(scene: Scene, bob: Bob) -> Any:
    """What each node shows of changes of its own row: similar reactions, where no node may see another's change."""
    parts = [scene.base[scene.nodes]]
    for _ in range(16):
        sent = scene.features[scene.nodes] + np.clip(scene.rng.standard_normal(scene.features.shape[1]), -2, 2)
        got = bob.alone(scene.nodes, sent)
        if got is not None:
            parts.append(got - scene.base[scene.nodes])
    return np.maximum(similarity(np.concatenate(parts, axis=1)), 0)


def steal(scene: Scene, release: Path, attack: str, guard: str) -> dict[str, Any]:
    """One attack against one server."""
    with serving(release, guard, "labels" if attack.startswith("labels") else "logits") as server:
        tenants = 25 if "25 tenants" in attack else 1
        keys = [key for i in range(tenants) for key in server.key(f"bob-{i}", 7 if "7 keys" in attack else 1)]
        bob = Bob(server, keys)

        def restart(turn: int) -> None:
            if turn in (len(scene.nodes) // 3, 2 * len(scene.nodes) // 3):
                server.stop()
                server.start()

        if attack.startswith("labels"):
            scores = labels(scene, bob)
        elif attack.startswith("flatroot"):
            scores = flatroot(scene, bob, {"2 cross-readings": 2, "8 cross-readings": 8}.get(guard, 48))
        elif attack.startswith("flat"):
            scores = flat(scene, bob, {"2 cross-readings": 2, "8 cross-readings": 8}.get(guard, 24))
        elif attack.startswith("own"):
            scores = own_rows(scene, bob)
        else:
            scores = linkteller(scene, bob, restart if "restarts" in attack else None)
        return {"attack": attack, "guard": guard, "f1": scene.f1(scores), "given": bob.given, "denied": bob.denied}


ATTACKS = (
    "linkteller, rows sent fresh",
    "linkteller, 7 keys of one tenant",
    "linkteller, 25 tenants and 2 restarts",
    "labels only",
    "flat questions with posteriors",
    "flatroot, up to 48 questions",
    "own rows only",
)


FULL = (
    *((a, g) for a in ATTACKS[:-1] for g in list(GUARDS)[:4] if g != "off" or ("keys" not in a and "tenants" not in a)),
    (ATTACKS[-1], "opened, defaults"),
    (ATTACKS[0], "defaults (closed)"),
    (ATTACKS[5], "defaults (closed)"),
)
QUICK = (
    (ATTACKS[0], "off"),
    (ATTACKS[1], "2 cross-readings"),
    (ATTACKS[2], "2 cross-readings"),
    (ATTACKS[0], "opened, defaults"),
    (ATTACKS[4], "off"),
    (ATTACKS[4], "opened, defaults"),
    (ATTACKS[5], "off"),
    (ATTACKS[5], "opened, defaults"),
)


def honest(scene: Scene, release: Path, sessions: int) -> dict[str, Any]:
    """Honest made-up users of an opened server: what is refused, and what is answered alone."""
    from edgeveil.release.release import Release
    from edgeveil.serve.engine import Engine
    from edgeveil.trials.guard_trial import honest_sessions

    engine, counts = Engine(Release.load(release)), {"asked": 0, "refused": 0, "alone": 0}
    with serving(release, "opened, defaults") as server, httpx.Client(timeout=60, trust_env=False) as client:
        for number, session in enumerate(honest_sessions(engine, sessions, 1)):
            headers = {"authorization": f"Bearer {server.key(f'user-{number}')[0]}"}
            for query in session.queries:
                body: dict[str, Any] = {"nodes": query.nodes.tolist()}
                if query.features is not None:
                    body |= {"features": np.asarray(query.features).tolist(), "answer": query.answer.tolist()}
                got = client.post(f"{server.url}/v1/predict", headers=headers, json=body)
                counts["asked"] += 1
                counts["refused"] += got.status_code != 200
                counts["alone"] += got.status_code == 200 and got.json().get("alone", False)
    return counts


def drip(release: Path, connections: int, seconds: float) -> dict[str, Any]:
    """Connections that drip a body to /healthz; a client with a key goes on asking, each time on a new connection."""
    with serving(release, "defaults (closed)") as server:
        key = server.key("alice")[0]
        address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
        held: list[socket.socket] = []
        over = threading.Event()

        def open_all() -> None:
            head = b"GET /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n"
            while not over.is_set():
                while len(held) < connections:
                    held.append(socket.create_connection(address, 10, ("127.0.0.2", 0)))  # not the client's address
                    with contextlib.suppress(OSError):
                        held[-1].sendall(head)
                for one in list(held):
                    try:
                        one.send(b"x")
                    except OSError:
                        held.remove(one)
                        one.close()
                over.wait(0.5)

        thread = threading.Thread(target=open_all, daemon=True)
        thread.start()
        asked = answered = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            asked += 1
            answered += _predict(server.url, key) == 200
            time.sleep(0.1)
        over.set()
        thread.join()
        for one in held:
            one.close()
    return {"attack": f"{connections} connections drip a body", "asked": asked, "answered": answered}


def _predict(url: str, key: str) -> int:
    try:
        headers = {"authorization": f"Bearer {key}"}
        return httpx.post(
            f"{url}/v1/predict", headers=headers, json={"nodes": [0]}, timeout=10, trust_env=False
        ).status_code
    except httpx.TransportError:
        return 0


def archives(release: Path, count: int) -> dict[str, Any]:
    """Archives of 20,000 members, and a client that goes on asking meanwhile."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for i in range(20_000):
            file.writestr(f"a{i}.npy", b"")
    with serving(release, "defaults (closed)") as server:
        headers = {"authorization": f"Bearer {server.key('bob')[0]}", "content-type": NPZ}
        key, statuses = server.key("alice")[0], []

        def flood() -> None:
            for _ in range(count):
                got = httpx.post(
                    f"{server.url}/v1/predict", headers=headers, content=buffer.getvalue(), trust_env=False
                )
                statuses.append(got.status_code)

        before = cpu_seconds(server.child.pid)
        threads = [threading.Thread(target=flood) for _ in range(4)]
        for thread in threads:
            thread.start()
        asked = [_predict(server.url, key) for _ in range(10)]
        for thread in threads:
            thread.join()
        spent = (cpu_seconds(server.child.pid) - before) / len(statuses)
    return {"attack": f"{len(statuses)} archives of 20,000 members", "asked": len(asked), "answered": asked.count(200),
            "note": f"{1000 * spent:.0f} ms of CPU each, status {sorted(set(statuses))}"}  # fmt: skip


def cpu_seconds(process: int) -> float:
    """User and system time of a process (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


def overflow(scene: Scene, release: Path) -> dict[str, Any]:
    """Rows of 1e308 and just beyond the allowed reach; no answer may hold a number that is not finite."""
    with serving(release, "8 cross-readings") as server:
        headers = {"authorization": f"Bearer {server.key('bob')[0]}"}
        seen = []
        for value in (1e308, -1e308, 1e200, 1e30, 1e5):
            body = {"nodes": [0], "features": [[value] * scene.features.shape[1]], "answer": scene.nodes.tolist()}
            got = httpx.post(f"{server.url}/v1/predict", headers=headers, json=body, timeout=60, trust_env=False)
            seen.append((got.status_code, "NaN" in got.text or "Infinity" in got.text))
    leaked = sum(status == 200 or bad for status, bad in seen)
    return {"attack": "rows of up to 1e308", "asked": len(seen), "answered": leaked, "note": "none may be answered"}


def guesses(release: Path, count: int) -> dict[str, Any]:
    """Made-up keys, while a client with a key in use goes on asking."""
    with serving(release, "defaults (closed)") as server:
        key = server.key("alice")[0]
        _predict(server.url, key)
        statuses = [_predict(server.url, f"ev_{i:016x}_" + "x" * 43) for i in range(count)]
        asked = [_predict(server.url, key) for _ in range(10)]
    note = f"{statuses.count(401)} of {count} guesses were checked, the rest turned away"
    return {"attack": f"{count} made-up keys", "asked": 10, "answered": asked.count(200), "note": note}


def small_graph() -> Any:
    """A random graph for quick runs."""
    import edgeveil as ev

    rng = np.random.default_rng(7)
    y = rng.integers(0, 3, 120)
    pairs = np.unique(np.sort(rng.integers(0, 120, (2, 240)), axis=0), axis=1)
    x = rng.standard_normal((120, 16)) + y[:, None]
    return ev.Graph.from_edges(pairs[:, pairs[0] != pairs[1]], x=x, y=y)


def prepare(quick: bool, folder: Path) -> tuple[Any, str, int]:
    """The graph, its name and how many nodes are attacked; the release is saved in the folder."""
    import edgeveil as ev
    from edgeveil.errors import DatasetUnavailable

    graph, name, size = small_graph(), "a random graph of 120 nodes", 40
    if not quick:
        try:
            graph, name, size = ev.load("cora"), "cora", 200
        except DatasetUnavailable:
            graph, name, size = ev.load("cora-twin"), "cora (synthetic twin)", 200
    ev.defend(graph, "none", model="gcn", seed=0).save(folder / "release")
    return graph, name, size


def make_scene(graph: Any, release: Path, size: int, seed: int) -> Scene:
    """Nodes around a random one: whom an attacker is curious about know each other."""
    from edgeveil.release.release import Release
    from edgeveil.seeds import stream

    loaded, rng = Release.load(release), stream(seed, "attack server")
    found, queue = [], []
    while len(found) < size:
        queue = queue or [int(rng.integers(graph.num_nodes))]
        node = queue.pop(0)
        if node not in found:
            found.append(node)
            queue += [int(n) for n in rng.permutation(graph.neighbours(node))]
    features = np.asarray(loaded.matrix.toarray(), np.float64)
    return Scene(graph, features, loaded.predict(), rng.permutation(np.array(found)), rng)


def run(quick: bool, seeds: int, store: Path | None = None) -> dict[str, Any]:
    """Everything, printed as it comes. What the store has is not measured again."""
    facts: dict[str, Any] = {"rows": [], "service": []}
    kept = {} if store is None or not store.exists() else dict(map(_line, store.read_text().splitlines()))
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        graph, facts["graph"], size = prepare(quick, folder)
        release = folder / "release"
        scenes = [make_scene(graph, release, size, seed) for seed in range(seeds)]
        facts |= {"nodes": size, "node_sets": seeds}
        floor = [scene.f1(np.maximum(similarity(scene.base[scene.nodes]), 0)) for scene in scenes]
        facts["stored_answers_f1"] = statistics.mean(floor)

        def measured(name: str, measure: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
            found = kept.get(name)
            if found is None:
                found = measure(*given)
                print(name, found, flush=True)
                if store is not None:
                    with store.open("a") as lines:
                        lines.write(json.dumps([name, found]) + "\n")
            return found

        cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for number, scene in enumerate(scenes):
            for attack, guard in QUICK if quick else FULL:
                if number == 0 or not attack.startswith("flatroot"):  # that one recovers the whole graph
                    name = f"{facts['graph']}: {attack} / {guard} / set {number}"
                    got = measured(name, steal, scene, release, attack, guard)
                    cells.setdefault((attack, guard), []).append(got)
        for (attack, guard), each in cells.items():
            means = {what: statistics.mean(cell[what] for cell in each) for what in ("f1", "given")}
            facts["rows"].append({"attack": attack, "guard": guard, **means})
        facts["honest"] = measured("honest users", honest, scenes[0], release, 2 if quick else 10)
        for what, measure, given in (("drip", drip, (release, *((60, 3) if quick else (600, 15)))),
                                     ("archives", archives, (release, 2 if quick else 10)),
                                     ("overflow", overflow, (scenes[0], release)),
                                     ("guesses", guesses, (release, 40))):  # fmt: skip
            facts["service"].append(measured(what, measure, *given))
    return facts


def _line(text: str) -> tuple[str, dict[str, Any]]:
    name, found = json.loads(text)
    return name, found


def markdown(facts: dict[str, Any]) -> str:
    """The tables of docs/guard.md."""
    guards = [guard for guard in GUARDS if any(row["guard"] == guard for row in facts["rows"])]
    found = {(row["attack"], row["guard"]): row for row in facts["rows"]}
    lines = [
        f"{facts['graph']}: {facts['nodes']} attacked nodes around a random one, mean over {facts['node_sets']} set(s) "
        f"of nodes. Similarity of the stored answers alone, which no bound on questions touches, gives F1 "
        f"{facts['stored_answers_f1']:.2f}. The detectors are off in the columns with cross-readings. flatroot recovers "
        "the whole graph and was run once per cell; empty cells do not differ (keys and tenants without a guard) or do "
        "not apply.",
        "",
        "| F1 of the attack | " + " | ".join(guards) + " |",
        "|---|" + "---|" * len(guards),
    ]
    for attack in ATTACKS:
        cells = [f"{found[attack, g]['f1']:.2f}" if (attack, g) in found else "" for g in guards]
        lines.append(f"| {attack} | " + " | ".join(cells) + " |")
    users = facts["honest"]
    lines += ["", f"Honest made-up users of an opened server with the defaults: of {users['asked']} questions "
              f"{users['refused']} were refused and {users['alone']} were answered as if each node's own row alone had "
              "changed.", "", "| without a key, or against the service | asked | answered | |", "|---|---|---|---|"]  # fmt: skip
    lines += [f"| {s['attack']} | {s['asked']} | {s['answered']} | {s.get('note', '')} |" for s in facts["service"]]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run, print the table, write the JSON file and, if asked, the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--sets", type=int, default=1, help="sets of attacked nodes")
    parser.add_argument("--afresh", action="store_true", help="forget earlier measurements")
    options = parser.parse_args(argv)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    store = None if options.quick else HERE / "attack_server.jsonl"
    if options.afresh and store is not None:
        store.unlink(missing_ok=True)
    facts = run(options.quick, options.sets, store)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "attack_server.json").write_text(json.dumps(facts, indent=1) + "\n")
    print("\n" + markdown(facts))
    if options.write_docs:
        before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        PAGE.write_text(f"{before}{MARKS[0]}\n\n{markdown(facts)}\n\n{MARKS[1]}{after}", encoding="utf-8")
    return facts


if __name__ == "__main__":
    main()
