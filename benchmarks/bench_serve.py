"""Load: single-node label queries to the guarded server against a bare FastAPI endpoint, in one run.

Both run under the same uvicorn in a process of their own; the client keeps a few connections busy. The bare endpoint
parses the same body and looks up the same label, and does nothing else: no key, no ledger, no guard, no log.

    python benchmarks/bench_serve.py [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

RESULTS = Path(__file__).parent / "results"
CONNECTIONS = 8
NODES = 2000


class Ask(BaseModel):
    """Body of the bare endpoint."""

    nodes: list[int]


def make_release() -> Any:
    """A small GCN; its labels are what both servers answer."""
    import edgeveil as ev

    rng = np.random.default_rng(0)
    graph = ev.Graph.from_edges(
        np.unique(np.sort(rng.integers(0, NODES, (2, 3 * NODES)), axis=0), axis=1),
        x=rng.standard_normal((NODES, 16)), y=rng.integers(0, 5, NODES),
    )  # fmt: skip
    return ev.defend(graph, "lapgraph", epsilon=4.0, model="gcn")


def run_guarded(folder: str, port: int) -> None:
    """The real server on a real release and ledger."""
    from edgeveil.serve.config import load_settings
    from edgeveil.serve.server import make_server

    make_server(load_settings(release=Path(folder) / "r", state=Path(folder) / "s", output="labels", port=port)).run()


def run_bare(folder: str, port: int) -> None:
    """The least a FastAPI endpoint can do for the same answer."""
    labels = np.load(Path(folder) / "labels.npy")
    app = FastAPI()

    @app.post("/v1/predict")
    async def predict(ask: Ask) -> dict[str, Any]:
        return {"kind": "labels", "nodes": ask.nodes, "labels": labels[ask.nodes].tolist()}

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def load(port: int, key: str, seconds: float) -> tuple[float, float]:
    """Requests per second and the 99th percentile of latency in milliseconds."""
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def client(seed: int) -> None:
        rng = np.random.default_rng(seed)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (started := time.perf_counter()) < end:
            body = b'{"nodes":[%d]}' % rng.integers(NODES)
            head = f"POST /v1/predict HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer
            at = answer.lower().index(b"content-length:") + 15
            await reader.readexactly(int(answer[at : answer.index(b"\r\n", at)]))
            times.append(time.perf_counter() - started)
        writer.close()

    before = time.perf_counter()
    await asyncio.gather(*(client(i) for i in range(CONNECTIONS)))
    return len(times) / (time.perf_counter() - before), 1000 * float(np.quantile(times, 0.99))


def wait_for(port: int) -> None:
    """Until the server accepts connections."""
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("a server did not start")


def measure(folder: str, key: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Alternate between the two servers, so that noise of the machine hits both."""
    ports = {"guarded": free_port(), "bare": free_port()}
    spawn = multiprocessing.get_context("spawn")
    workers = [
        spawn.Process(target=target, args=(folder, ports[name]), daemon=True)
        for name, target in (("guarded", run_guarded), ("bare", run_bare))
    ]
    for worker in workers:
        worker.start()
    try:
        for port in ports.values():
            wait_for(port)
            asyncio.run(load(port, key, 0.5))
        got: dict[str, list[tuple[float, float]]] = {"guarded": [], "bare": []}
        for _ in range(rounds):
            for name, port in ports.items():
                got[name].append(asyncio.run(load(port, key, seconds)))
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()
    ratios = [a[0] / b[0] for a, b in zip(got["guarded"], got["bare"], strict=True)]
    facts: dict[str, Any] = {"ratio": statistics.median(ratios), "ratios": ratios, "connections": CONNECTIONS}
    for name, runs in got.items():
        facts[name] = {"rps": statistics.median(r for r, _ in runs), "p99_ms": statistics.median(p for _, p in runs)}
    return facts


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run, print the ratio, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args(argv).quick
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        release = make_release()
        release.save(Path(folder) / "r")
        np.save(Path(folder) / "labels.npy", release.predict().argmax(axis=1))
        from edgeveil.serve.auth import KeyStore
        from edgeveil.serve.database import Database

        database = Database(f"sqlite:///{folder}/s/ledger.db")
        key, _ = KeyStore(database).add("load", "query")
        database.close()
        facts = measure(folder, key, 2 if quick else 5, 1.5 if quick else 3.0)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "serve.json").write_text(json.dumps(facts, indent=1) + "\n")
    for name in ("guarded", "bare"):
        print(f"{name:8} {facts[name]['rps']:7.0f} requests/s, p99 {facts[name]['p99_ms']:.1f} ms")
    print(f"guarded server / bare FastAPI throughput, single-node label queries: {facts['ratio']:.2f}")
    return facts


if __name__ == "__main__":
    main()
