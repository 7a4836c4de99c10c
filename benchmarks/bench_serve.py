"""Load: the command `edgeveil serve` against a bare FastAPI endpoint, over real sockets, in one run.

The server is started as users start it. The bare endpoint runs under uvicorn, parses the same body, asks the same
engine for the same answer and does nothing else: no key, no ledger, no guard, no log. Clients keep their connections
and ask one node at a time: about its stored features, or about one changed row. Turns are taken between the servers, and
beside throughput the processor time per request is compared, which other work on the machine disturbs less. For changed
rows a third server with `batch = 1` shows what computing questions together is worth.

    python benchmarks/bench_serve.py [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

HERE = Path(__file__).parent
GRAPHS = ("cora", "pubmed")
CONNECTIONS = (1, 16)
BODIES = 64


class Ask(BaseModel):
    """Body of the bare endpoint."""

    nodes: list[int]
    features: list[list[float]] | None = None


def bare(folder: str) -> None:
    """The least a FastAPI endpoint can do for the same answer; prints its address."""
    import uvicorn
    from fastapi import FastAPI

    from edgeveil.release.release import Release
    from edgeveil.serve.engine import Engine
    from edgeveil.serve.listener import listen
    from edgeveil.serve.policy import probabilities
    from edgeveil.serve.wire import Query

    engine, app = Engine(Release.load(folder)), FastAPI()

    @app.post("/v1/predict")
    async def predict(ask: Ask) -> dict[str, Any]:
        nodes = np.asarray(ask.nodes)
        features = None if ask.features is None else np.asarray(ask.features)
        query = Query(nodes, features, nodes)
        logits = engine.stored(query) if features is None else engine.answer(query, engine.change(query))
        return {"kind": "probabilities", "nodes": ask.nodes, "values": probabilities(logits, False).tolist()}

    socket = listen("127.0.0.1", 0)
    print(f"bare on http://127.0.0.1:{socket.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[socket])


@contextmanager
def process(words: list[str], log: Path) -> Iterator[tuple[str, int]]:
    """The address and process of a server that runs while the block does."""
    with log.open("wb") as out:
        child = subprocess.Popen([sys.executable, *words], stdout=out, stderr=subprocess.STDOUT)
    try:
        for _ in range(12_000):
            said = log.read_text()
            if (" on http" in said and said.endswith("\n")) or child.poll() is not None:
                break
            time.sleep(0.05)
        url = said.split(" on ", 1)[1].split()[0]
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{url}/openapi.json", timeout=5).close()
                break
            except OSError:
                time.sleep(0.05)
        yield url, child.pid
    finally:
        child.terminate()
        child.wait(30)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


async def load(url: str, head: str, bodies: list[bytes], connections: int, seconds: float) -> tuple[float, float]:
    """Requests per second and the 99th percentile of latency in milliseconds."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    port = int(url.rsplit(":", 1)[1])

    async def client(turn: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (started := time.perf_counter()) < end:
            body = bodies[turn % len(bodies)]
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            at = answer.lower().index(b"content-length:") + 15
            rest = await reader.readexactly(int(answer[at : answer.index(b"\r\n", at)]))
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"{answer.decode()}{rest.decode()}")
            times.append(time.perf_counter() - started)
            turn += 1
        writer.close()

    before = time.perf_counter()
    await asyncio.gather(*(client(7 * i) for i in range(connections)))
    return len(times) / (time.perf_counter() - before), 1000 * float(np.quantile(times, 0.99))


def make_bodies(release: Any, kind: str) -> list[bytes]:
    """Questions about one node each; changed rows are other nodes' rows."""
    rng = np.random.default_rng(0)
    nodes = rng.integers(0, release.num_nodes, BODIES).tolist()
    if kind == "stored":
        return [json.dumps({"nodes": [node]}).encode() for node in nodes]
    rows = np.asarray(release.matrix.rows(rng.integers(0, release.num_nodes, BODIES)), float)
    return [json.dumps({"nodes": [n], "features": [r.tolist()]}).encode() for n, r in zip(nodes, rows, strict=True)]


def compare(
    servers: dict[str, tuple[str, int]], key: str, bodies: list[bytes], connections: int, quick: bool
) -> dict[str, Any]:
    """Alternate between the servers, so that noise of the machine hits all."""
    head = f"POST /v1/predict HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
    got: dict[str, list[tuple[float, float, float]]] = {name: [] for name in servers}
    seconds = 1.0 if quick else 3.0
    for url, _ in servers.values():
        asyncio.run(load(url, head, bodies, connections, 0.5))
    for _ in range(2 if quick else 5):
        for name, (url, pid) in servers.items():
            before = cpu_seconds(pid)
            rate, late = asyncio.run(load(url, head, bodies, connections, seconds))
            got[name].append((rate, late, 1e6 * (cpu_seconds(pid) - before) / (rate * seconds)))
    facts: dict[str, Any] = {}
    for name, runs in got.items():
        parts = (statistics.median(part) for part in zip(*runs, strict=True))
        facts[name] = dict(zip(("rps", "p99_ms", "cpu_us"), parts, strict=True))
    for name in set(servers) - {"edgeveil"}:
        pairs = list(zip(got["edgeveil"], got[name], strict=True))
        facts[f"against {name}"] = {
            "ratio": statistics.median(ours[0] / theirs[0] for ours, theirs in pairs),
            "cpu_ratio": statistics.median(theirs[2] / ours[2] for ours, theirs in pairs),
        }
    return facts


def prepare(name: str, folder: Path) -> tuple[Any, str, str]:
    """A sound release of a graph (or of its twin, where the graph is not at hand), its label, and a key."""
    import edgeveil as ev
    from edgeveil.errors import DatasetUnavailable
    from edgeveil.privacy.ledger.database import Database
    from edgeveil.serve.auth import KeyStore

    try:
        graph, label = ev.load(name), name
    except DatasetUnavailable:
        graph, label = ev.load(f"{name}-twin"), f"{name} (synthetic twin)"
    release = ev.defend(graph, "lapgraph", epsilon=8.0, model="gcn")
    release.save(folder / "release")
    database = Database(f"sqlite:///{folder / 'state' / 'ledger.db'}")
    key, _ = KeyStore(database).add("load", "query")
    database.close()
    return release, label, key


def measure(name: str, quick: bool) -> Iterator[dict[str, Any]]:
    """All four cells of one graph."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        release, label, key = prepare(name, folder)
        (folder / "single.toml").write_text("batch = 1\n")
        ours = ["-m", "edgeveil", "serve", str(folder / "release"), "--state", str(folder / "state"), "--port", "0"]
        single = [*ours, "--config", str(folder / "single.toml")]
        theirs = [__file__, "--bare", str(folder / "release")]
        with (
            process(ours, folder / "ours") as mine,
            process(theirs, folder / "theirs") as other,
            process(single, folder / "single") as plain,
        ):
            for kind in ("stored", "changed"):
                servers = {"edgeveil": mine, "bare": other, **({"batch = 1": plain} if kind == "changed" else {})}
                bodies = make_bodies(release, kind)
                for connections in CONNECTIONS:
                    facts = compare(servers, key, bodies, connections, quick)
                    yield {"graph": label, "kind": kind, "connections": connections, **facts}


def told(row: dict[str, Any]) -> str:
    """One line about one cell."""
    parts = [f"{row['graph']:8} {row['kind']:8} {row['connections']:2} connections:"]
    for name in ("edgeveil", "bare", "batch = 1"):
        if name in row:
            found = row[name]
            parts.append(f"{name} {found['rps']:.0f}/s, p99 {found['p99_ms']:.1f} ms, CPU {found['cpu_us']:.0f} us;")
    for name in ("bare", "batch = 1"):
        if name in row:
            found = row[f"against {name}"]
            parts.append(f"against {name} {found['ratio']:.2f} (CPU {found['cpu_ratio']:.2f})")
    return " ".join(parts)


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    """Run, print the ratios, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--bare", metavar="RELEASE", help="be the bare endpoint")
    options = parser.parse_args(argv)
    if options.bare:
        bare(options.bare)
        return []
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows: list[dict[str, Any]] = []
    for name in GRAPHS[:1] if options.quick else GRAPHS:
        for row in measure(name, options.quick):
            rows.append(row)
            print(told(row), flush=True)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "serve.json").write_text(json.dumps(rows, indent=1) + "\n")
    return rows


if __name__ == "__main__":
    main()
