"""Graphs larger than memory: time, processor time and resident memory of every stage as the edges grow.

    python benchmarks/run.py scale [--sizes=1e6,1e7] [--engines=duckdb,spark:local[2]] [--memory=1GB] [--folder=DIR]

Heavy-tailed graphs with n = E/10 nodes, 16 features and 8 classes (`HeavyTailed`), every size in a process of its own
that runs the stages of an LPGNet-1 release and of an attack's preparation one after the other. Peak memory is the
largest resident set of that process (ru_maxrss), Spark's Java process counted on its own. The exponent is the slope of
log time over log edges. What one would do otherwise (networkx; PyG's tensors and a GCN in memory) is measured at small
sizes, and the size at which it exceeds the memory of `--dies` gigabytes follows from its measured bytes per edge.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
EPOCHS = 2


def resident() -> float:
    """Peak resident memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def java_resident(pid: int) -> float:
    """Peak resident memory of the children (Spark's Java process), in GB."""
    total = 0.0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            words = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if words["Name"].strip() == "java" and pid in _parents(status.parent.name):
            total += int(words["VmHWM"].split()[0]) / 1e6
    return total


def _parents(pid: str) -> set[int]:
    found: set[int] = set()
    while pid not in ("0", ""):
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            break
        pid = next(line.split()[1] for line in lines if line.startswith("PPid"))
        found.add(int(pid))
    return found


class Stages:
    """Prints one JSON line per stage."""

    def __init__(self, **facts: Any) -> None:
        self.facts = facts

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Time one stage."""
        import os

        more: dict[str, Any] = {}
        wall, own = time.perf_counter(), os.times()
        yield more
        now = os.times()
        cpu = sum(now[:4]) - sum(own[:4])
        row = {"stage": name, "wall_s": time.perf_counter() - wall, "cpu_s": cpu, "peak_gb": resident(), **more}
        print(json.dumps({**self.facts, **row}), flush=True)


def run_size(edges: int, engine: str, memory: str, folder: Path, release: bool) -> None:
    """All stages of one size on one engine; the files are made if they are not there."""
    import os

    from edgeveil.defences.stored.defend_stored import defend_stored
    from edgeveil.graph.splits import apply_split
    from edgeveil.graph.stored.graph_in_files import open_graph
    from edgeveil.graph.stored.heavy_tailed import HeavyTailed
    from edgeveil.models.settings import TrainSpec

    log = Stages(edges=edges, nodes=edges // 10, engine=engine)
    files = folder / f"graph-{edges}"
    if not (files / "nodes.parquet").exists():
        with log.stage("generate"):
            HeavyTailed(nodes=edges // 10, edges=edges).write(files)
    work = folder / f"work-{edges}-{engine.partition(':')[0]}"
    shutil.rmtree(work, ignore_errors=True)
    started = log.stage("open")
    with (
        started,
        open_graph(
            files / "edges",
            files / "nodes.parquet",
            files / "labels.parquet",
            work=work,
            engine=engine,
            memory=memory,
            threads=2,
        ) as graph,
    ):
        pass
    with open_graph(
        files / "edges",
        files / "nodes.parquet",
        files / "labels.parquet",
        work=work,
        engine=engine,
        memory=memory,
        threads=2,
    ) as graph:
        graph = graph.with_nodes(apply_split(graph.nodes, "10:5:85", 0))
        with log.stage("symmetrise, de-duplicate"):
            graph.prepare()
        with log.stage("degrees"):
            graph.degrees()
        with log.stage("cluster counts"):
            graph.cluster_degrees(graph.nodes.y, graph.nodes.num_classes)
        some = np.sort(np.random.default_rng(0).choice(graph.num_nodes, 500, replace=False))
        with log.stage("neighbourhood, 500 nodes, 1 hop") as more:
            more["found"] = len(graph.neighbourhood(some, 1).nodes)
        with log.stage("non-edges, 10,000"):
            graph.non_edges(10_000, np.random.default_rng(0))
        if release:
            few = TrainSpec(epochs=EPOCHS, batch_size=4096, keep="best-val-loss")
            with (
                log.stage("release lpgnet-1, save") as more,
                defend_stored(graph, "lpgnet-1", epsilon=4.0, train=few) as made,
            ):
                made.save(folder / f"release-{edges}")
            shutil.rmtree(folder / f"release-{edges}")
        if engine.startswith("spark"):
            with log.stage("end") as more:
                more["java_gb"] = java_resident(os.getpid())
    shutil.rmtree(work, ignore_errors=True)


def otherwise(kind: str, edges: int) -> None:
    """What one would do without: load all edges into networkx, or into tensors for one training step of PyG's GCN."""
    log = Stages(edges=edges, nodes=edges // 10, engine=kind)
    from edgeveil.graph.stored.heavy_tailed import HeavyTailed

    made = HeavyTailed(nodes=edges // 10, edges=edges)
    ends = np.concatenate([np.stack(block) for block in made.edge_blocks()], axis=1)
    before = resident()
    with log.stage("load, degrees" if kind == "networkx" else "load, one step of a GCN") as more:
        if kind == "networkx":
            import networkx as nx

            graph = nx.Graph()
            graph.add_nodes_from(range(made.nodes))
            graph.add_edges_from(zip(ends[0].tolist(), ends[1].tolist(), strict=True))
            _ = dict(graph.degree())
        else:
            _pyg_step(ends, made)
        more["bytes_per_edge"] = (resident() - before) * 1e9 / edges


def _pyg_step(ends: Any, made: Any) -> None:
    import torch
    from torch_geometric.nn import GCNConv
    from torch_geometric.utils import to_undirected

    index = to_undirected(torch.from_numpy(ends), num_nodes=made.nodes)
    x = torch.from_numpy(np.concatenate([block for _, block in made.feature_blocks()]))
    y = torch.from_numpy(made.labels(np.arange(made.nodes)))
    first, second = GCNConv(16, 16), GCNConv(16, 8)
    torch.nn.functional.cross_entropy(second(first(x, index).relu(), index), y).backward()


def exponents(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Slope of log processor time over log edges, by stage, from the largest two sizes that took long enough."""
    out = {}
    for stage in dict.fromkeys(row["stage"] for row in rows if row["engine"] == "duckdb"):
        mine = sorted((r["edges"], r["cpu_s"]) for r in rows if r["stage"] == stage and r["engine"] == "duckdb")
        if len(mine) > 1 and mine[-2][1] > 0.2:
            (a, s), (b, t) = mine[-2:]
            out[stage] = float(np.log(t / s) / np.log(b / a))
    return out


def collect(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every size and way in a process of its own."""
    rows: list[dict[str, Any]] = []
    folder = Path(options.folder or tempfile.mkdtemp(prefix="edgeveil-scale-"))
    sizes = [int(float(size)) for size in options.sizes.split(",")]
    jobs = [
        ("size", e, engine) for e in sizes for engine in options.engines.split(",") if engine == "duckdb" or e <= 10**7
    ]
    jobs += [("otherwise", min(sizes[0], 10**6), kind) for kind in ("networkx", "pyg")]
    for kind, edges, what in jobs:
        words = [
            sys.executable,
            __file__,
            f"--one={kind},{edges},{what}",
            f"--memory={options.memory}",
            f"--folder={folder}",
        ]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    rows.append(json.loads(line))
                    print(line, end="", flush=True)
        if process.returncode:
            rows.append({"engine": what, "edges": edges, "stage": "failed", "wall_s": 0, "cpu_s": 0, "peak_gb": 0})
            print(f"failed: {what} at {edges}", flush=True)
    if options.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="1e6,1e7")
    parser.add_argument("--engines", default="duckdb,spark:local[2]")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--folder")
    parser.add_argument("--dies", type=float, default=32.0, help="GB of the machine on which the others die")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one")
    options = parser.parse_args()
    if options.one:
        kind, edges, what = options.one.split(",", 2)
        if kind == "size":
            run_size(int(edges), what, options.memory, Path(options.folder), what == "duckdb")
        else:
            otherwise(what, int(edges))
        return
    if options.quick:
        options.sizes, options.engines = "1e5,1e6", "duckdb"
    rows = collect(options)
    slopes = exponents(rows)
    for stage, slope in slopes.items():
        print(f"{stage}: exponent {slope:.2f} (wanted <= 1.1)")
    peak = max((r["peak_gb"] for r in rows if r["engine"] == "duckdb"), default=0.0)
    print(f"peak resident memory {peak:.2f} GB (wanted < 3)")
    for row in rows:
        if "bytes_per_edge" in row:
            row["dies_at_edges"] = options.dies * 1e9 / row["bytes_per_edge"]
            print(
                f"{row['engine']}: {row['bytes_per_edge']:.0f} bytes an edge, {options.dies:g} GB end at {row['dies_at_edges']:.1e} edges"
            )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "scale.json").write_text(
        json.dumps({"rows": rows, "exponents": slopes, "memory": options.memory}, indent=1)
    )


if __name__ == "__main__":
    main()
