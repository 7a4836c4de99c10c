"""Link stealing over HTTP: what one attacker gets from one server, scored against the true edges."""

from __future__ import annotations

import io
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from live_server import GUARDS, NPZ, Server, serving
from scipy.optimize import nnls


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
