"""Graphs larger than memory: time, processor time and resident memory of every stage as the edges grow.

    python benchmarks/run.py scale [--sizes=1e6,1e7] [--engines=duckdb,spark:local[2],ray] [--memory=1GB] [--folder=DIR]

Heavy-tailed graphs with n = E/10 nodes, 16 features and 8 classes (`HeavyTailed`), every size in a process of its own
that runs the stages of an LPGNet-1 release and of an attack's preparation one after the other. Peak memory is the
largest resident set of that process (ru_maxrss), Spark's Java process counted on its own. The exponent is the slope of
log time over log edges. What one would do otherwise (networkx; PyG's tensors and a GCN in memory) gets `--dies` gigabytes
(RLIMIT_DATA) and twice as many edges every time until it dies. The share of memory bandwidth in training is measured on
a graph of its own size, `--share` edges.
"""

from __future__ import annotations

import argparse
import json
import os
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
KEPT = Path(__file__).parent / "scale.jsonl"
EPOCHS = 2


def resident() -> float:
    """Peak resident memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def java_seconds(pid: int) -> float:
    """Processor seconds of Spark's Java process so far."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name == "java" and pid in _parents(stat.parent.name):
            user, system = rest.split()[11:13]
            total += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return total


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
        more: dict[str, Any] = {}
        spark = str(self.facts.get("engine", "")).startswith("spark")
        wall, own, java = time.perf_counter(), os.times(), java_seconds(os.getpid()) if spark else 0.0
        yield more
        now = os.times()
        cpu = sum(now[:4]) - sum(own[:4]) + (java_seconds(os.getpid()) - java if spark else 0.0)
        row = {"stage": name, "wall_s": time.perf_counter() - wall, "cpu_s": cpu, "peak_gb": resident(), **more}
        print(json.dumps({**self.facts, **row}), flush=True)


def run_size(edges: int, engine: str, memory: str, folder: Path, release: bool) -> None:
    """All stages of one size on one engine; the files are made if they are not there."""
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

    def opened() -> Any:
        tables = files / "edges", files / "nodes.parquet", files / "labels.parquet"
        return open_graph(*tables, work=work, engine=engine, memory=memory, threads=2)

    with log.stage("open"), opened():
        pass
    with opened() as graph:
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


def run_ray(edges: int, folder: Path) -> None:
    """The two heaviest queries written for Ray Data, which has no SQL: tried against Spark before one was chosen."""
    import pyarrow as pa
    import ray
    import ray.data

    from edgeveil.graph.stored.graph_in_files import open_graph

    log = Stages(edges=edges, nodes=edges // 10, engine="ray:2")
    files = folder / f"graph-{edges}"
    with log.stage("open"):
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
    classes = 8

    def simple(table: Any) -> Any:
        u, v = (table.column(name).to_numpy() for name in ("source", "target"))
        low, high = np.minimum(u, v), np.maximum(u, v)
        keep = low != high
        return pa.table({"u": low[keep], "v": high[keep]})

    def cells(table: Any) -> Any:
        u, v = (table.column(name).to_numpy() for name in ("u", "v"))
        return pa.table({"cell": np.concatenate([u * classes + v % classes, v * classes + u % classes])})

    with log.stage("symmetrise, de-duplicate"):
        pairs = ray.data.read_parquet(str(files / "edges")).map_batches(simple, batch_format="pyarrow")
        distinct = pairs.groupby(["u", "v"]).count().materialize()
    with log.stage("cluster counts") as more:
        counted = distinct.map_batches(cells, batch_format="pyarrow").groupby("cell").count()
        total = counted.sum("count()")
        more["counted"] = int(total)
    with open_graph(files / "edges", files / "nodes.parquet", files / "labels.parquet", threads=2) as graph:
        assert total == 2 * graph.num_edges
    with log.stage("end") as more:
        import psutil

        children = psutil.Process(os.getpid()).children(recursive=True)
        more["workers_gb"] = sum(child.memory_info().rss for child in children) / 1e9
    ray.shutdown()


def bandwidth() -> float:
    """Bytes per second that all threads copy together (read and written), from a copy far larger than any cache."""
    import torch

    a, b = torch.ones(1 << 27), torch.empty(1 << 27)
    best = 0.0
    for _ in range(4):
        started = time.perf_counter()
        b.copy_(a)
        best = max(best, 2 * 4 * len(a) / (time.perf_counter() - started))
    return best


def run_share(edges: int, threads: int = 2, hidden: int = 16) -> None:
    """The shortest of a few full-batch epochs of a GCN beside the memory that it must move."""
    import torch

    from edgeveil.graph.graph import Graph
    from edgeveil.graph.stored.heavy_tailed import HeavyTailed
    from edgeveil.models import ModelSpec, Structure, TrainSpec, build, fit

    torch.set_num_threads(threads)
    made = HeavyTailed(nodes=edges // 5, edges=edges)
    ends = np.concatenate([np.stack(block) for block in made.edge_blocks()], axis=1)
    x = np.concatenate([block for _, block in made.feature_blocks()])
    graph = Graph.from_edges(ends, x, made.labels(np.arange(made.nodes)), num_nodes=made.nodes)
    structure, stamps = Structure(graph.adjacency), []
    model = build(ModelSpec(name="gcn", hidden=hidden, layers=2), x.shape[1], graph.num_classes, seed=0)
    log = Stages(edges=edges, nodes=made.nodes, engine="training", threads=threads)
    with log.stage("share of memory") as more:
        before = bandwidth()
        fit(
            model, x, structure, graph.y, np.ones(made.nodes, bool), None, TrainSpec(epochs=8), seed=0,
            num_threads=threads, progress=lambda *_: stamps.append(time.perf_counter()),
        )  # fmt: skip
        epoch, speed = float(np.diff(stamps).min()), max(before, bandwidth())
        moved = moved_bytes(graph, (hidden, graph.num_classes))
        more |= {"epoch_s": epoch, "bytes": moved, "copy_bytes_per_s": speed, "share": moved / speed / epoch}


def moved_bytes(graph: Any, widths: tuple[int, ...]) -> int:
    """What two layers, forward and backward, must move at least.

    Every entry of A + I reads its column number, its weight and a row of the other matrix; every row is written once.
    """
    entries = 2 * graph.num_edges + graph.num_nodes
    return sum(2 * (entries * (8 + 4 * width) + 4 * width * graph.num_nodes) for width in widths)


def run_training(edges: int) -> None:
    """What mini-batches cost a GCN in accuracy."""
    import torch

    from edgeveil.defences.stored.sampled_gnn import fit_on_samples
    from edgeveil.graph.splits import apply_split
    from edgeveil.graph.stored.graph_in_files import open_graph
    from edgeveil.graph.stored.heavy_tailed import HeavyTailed
    from edgeveil.models import ModelSpec, Structure, TrainSpec, build, fit
    from edgeveil.models.assemble import predict_logits

    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="edgeveil-training-"))
    files = HeavyTailed(nodes=edges // 5, edges=edges, signal=0.25).write(folder)
    log = Stages(edges=edges, nodes=edges // 5, engine="training")
    with open_graph(*files, threads=2) as stored:
        stored = stored.with_nodes(apply_split(stored.nodes, "50:25:25", 0))
        graph = stored.to_graph()
        spec, train = ModelSpec(name="gcn", hidden=16, layers=2), TrainSpec(epochs=40)
        x = (graph.x - graph.x.mean(axis=0)) / graph.x.std(axis=0)
        structure = Structure(graph.adjacency)
        model = build(spec, x.shape[1], graph.num_classes, seed=0)
        with log.stage("full batch") as more:
            fit(model, x, structure, graph.y, graph.train_mask, None, train, seed=0, num_threads=1)
            test = np.flatnonzero(graph.test_mask)
            more["accuracy"] = float((predict_logits(model, x, structure).argmax(1)[test] == graph.y[test]).mean())
        for batch in (100, 500):
            with log.stage(f"mini-batches of {batch} nodes") as more:
                made = fit_on_samples(stored, spec, TrainSpec(epochs=5), batch=batch, rounds=16, seed=0)
                near = stored.neighbourhood(np.flatnonzero(graph.train_mask)[:batch], 2)
                answers = predict_logits(made.model, made.scaler.apply(graph.x), structure).argmax(1)
                more["accuracy"] = float((answers[test] == graph.y[test]).mean())
                more["nodes_in_memory"] = len(near.nodes)
    shutil.rmtree(folder)


def otherwise(kind: str, edges: int, limit: float) -> None:
    """What one would do without: load all edges into networkx, or into tensors for one training step of PyG's GCN."""
    resource.setrlimit(resource.RLIMIT_DATA, (int(limit * 1e9), int(limit * 1e9)))
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


def run_job(
    kind: str, edges: int, what: str, options: argparse.Namespace, folder: Path
) -> tuple[list[dict[str, Any]], str]:
    """One size of one way in a process of its own: its rows, and its last words if it failed."""
    words = [sys.executable, __file__, f"--one={kind},{edges},{what}", f"--memory={options.memory}"]
    words += [f"--folder={folder}", f"--dies={options.dies}"]
    rows: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                rows.append(json.loads(line))
                print(line, end="", flush=True)
        if not process.wait():
            return rows, ""
        said.seek(0)
        last = (said.read().strip().splitlines() or [f"exit {process.returncode}"])[-1][:200]
    print(f"failed: {what} at {edges}: {last}", flush=True)
    return rows, last


def run_until_death(kind: str, edges: int, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Twice as many edges every time, until the limit of memory ends it: the last size that ran, and the death."""
    lived: list[dict[str, Any]] = []
    while True:
        rows, last = run_job("otherwise", edges, kind, options, folder)
        if last:
            died = any(word in last.lower() for word in ("memory", "bad_alloc"))
            stage = {
                "stage": "died" if died else "failed",
                "wall_s": 0,
                "cpu_s": 0,
                "peak_gb": options.dies,
                "said": last,
            }
            return [*lived[-1:], {"engine": kind, "edges": edges, "limit_gb": options.dies, **stage}]
        lived, edges = rows, 2 * edges


def collect(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every size and way in a process of its own."""
    rows: list[dict[str, Any]] = []
    folder = Path(options.folder or tempfile.mkdtemp(prefix="edgeveil-scale-"))
    sizes = [int(float(size)) for size in options.sizes.split(",")]
    first, engines = min(sizes[0], 10**6), options.engines.split(",")
    jobs = [
        ("size", e, engine) for engine in engines for e in sizes if engine == "duckdb" or e == min(sizes[-1], 10**7)
    ]
    jobs[len(sizes) : len(sizes)] = [("share", int(float(options.share)), "gcn")]
    jobs += [("death", first, "pyg"), ("death", first, "networkx"), ("training", first, "gcn")]
    for kind, edges, what in jobs:
        if kind not in options.only.split(","):
            continue
        if kind == "death":
            fresh = run_until_death(what, edges, options, folder)
        else:
            fresh = run_job(kind, edges, what, options, folder)[0]
        rows += [{**row, "run": options.run} for row in fresh]
        if not options.quick:
            keep(rows)
    if options.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def keep(rows: list[dict[str, Any]]) -> None:
    """Put the rows into scale.jsonl in the place of earlier ones of the same size, engine and stage."""
    known = [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []
    died = {row["engine"] for row in rows if row["stage"] == "died"}  # of these only the latest sizes count
    kept = [row for row in known if row["engine"] not in died]
    merged = {(row["engine"], row["edges"], row["stage"]): row for row in [*kept, *rows]}
    ordered = sorted(merged.values(), key=lambda row: (row["engine"], row["edges"]))
    KEPT.write_text("".join(json.dumps(row) + "\n" for row in ordered))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="1e6,1e7")
    parser.add_argument("--engines", default="duckdb,spark:local[2]")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--folder")
    parser.add_argument("--dies", type=float, default=4.0, help="GB that the others may take")
    parser.add_argument("--share", default="5e6", help="edges of the graph on which memory bandwidth is measured")
    parser.add_argument("--only", default="size,share,death,training", help="what to measure")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one")
    parser.set_defaults(run=time.strftime("%Y-%m-%d %H:%M"))
    options = parser.parse_args()
    if options.one:
        kind, edges, what = options.one.split(",", 2)
        if kind == "size" and what.startswith("ray"):
            run_ray(int(edges), Path(options.folder))
        elif kind == "size":
            run_size(int(edges), what, options.memory, Path(options.folder), what == "duckdb")
        elif kind == "training":
            run_training(int(edges))
        elif kind == "share":
            run_share(int(edges))
        else:
            otherwise(what, int(edges), options.dies)
        return
    if options.quick:
        options.sizes, options.engines, options.share, options.dies = "1e5,1e6", "duckdb", "5e5", 1.0
    rows = collect(options)
    slopes = exponents(rows)
    for stage, slope in slopes.items():
        print(f"{stage}: exponent {slope:.2f} (wanted <= 1.1)")
    peak = max((r["peak_gb"] for r in rows if r["engine"] == "duckdb"), default=0.0)
    print(f"peak resident memory {peak:.2f} GB (wanted < 3)")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "scale.json").write_text(
        json.dumps({"rows": rows, "exponents": slopes, "memory": options.memory}, indent=1)
    )


if __name__ == "__main__":
    main()
