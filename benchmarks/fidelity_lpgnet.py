"""LPGNet as it should be (independent noise) and its two read-outs: measure rows, then write docs/fidelity-lpgnet.md.

    python benchmarks/fidelity_lpgnet.py run --datasets cora,citeseer --parts mlp,gcn,lpgnet --seeds 10
    python benchmarks/fidelity_lpgnet.py table --reference lpgnet.csv --out docs/fidelity-lpgnet.md

`run` appends JSON lines and skips what the file already holds, so it can be stopped and continued. One process, one
thread. `--reference` is a CSV of printed figures: table, dataset, model, epsilon, attack, metric, mean, std. The printed
tables themselves, DPGCN and the Twitch graphs are `edgeveil reproduce lpgnet:TABLE`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import edgeveil as ev
from edgeveil.defences.lpgnet.lpgnet import LPGNet
from edgeveil.defences.lpgnet.lpgnet_analysis import cluster_cosines, homophily_by_cluster, noisy_edge_share
from edgeveil.graph.cluster_degrees import cluster_degrees
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.metrics.protocol import sampled_pairs
from edgeveil.models import ModelSpec, build, fit, preset
from edgeveil.release.lpgnet_predictor import row_logits, stack_features
from edgeveil.release.predictors import no_edges

EPSILONS = [float(k) for k in range(1, 11)]
INF = float("inf")
CANDIDATES = [(lr, hidden) for lr in (0.05, 0.01, 0.002) for hidden in (16, 256)]
Row = dict[str, Any]
Runs = Iterator[tuple[Row, Callable[[], Any]]]  # what a row is about, and the work that fills it


def graphs(dataset: str, seed: int) -> tuple[Graph, dict[str, Any]]:
    """The training graph and what `defend` needs besides."""
    if dataset.startswith("flickr"):
        return ev.load(dataset, split="50:25:25", split_seed=seed), {"setting": "inductive-evolving"}
    if dataset == "facebook":
        return ev.load(dataset, split="64:16:20", split_seed=seed), {}
    if dataset == "chameleon":
        return ev.load(dataset, split=seed % 10), {}
    return ev.load(dataset), {}


def gcn_spec(graph: Graph) -> ModelSpec:
    """LPGNet's GCN with the smallest hidden layer of its grid, unless a tuned preset says otherwise."""
    chosen = preset("lpgnet", graph.name, "gcn")
    return chosen.model if chosen.tuned else replace(chosen.model, hidden=16)


def figures(release: ev.Release, truth: Graph, seed: int) -> Row:
    """Utility and attack figures of one release, on the inference graph."""
    row: Row = {"f1": release.utility()["micro_f1"]}
    blind = release.model == "mlp"  # answers about a node read no other node: LinkTeller sees exact zeros
    asked = {"pairs": sampled_pairs(truth, seed=seed).pairs}
    row["lpa_published"] = published_lpa(release, truth, seed)
    for name, attack, params in (("lpa", "lsa2-post", {"variant": "published"}), ("linkteller", "linkteller", {})):
        if name == "linkteller" and blind:
            row[name] = 0.5
            continue
        result = ev.attack(release, attack, **asked, **params)
        row[name] = ev.metrics.ranking(result.scores, truth.has_edges(*result.pairs))["auc"]
    return row


def published_lpa(release: ev.Release, truth: Graph, seed: int) -> float:
    """LPA as the authors measured it: pairs drawn node first, posteriors centred over all nodes."""
    logits = release.predict()
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p -= p.mean(axis=0)
    p /= np.maximum(np.linalg.norm(p, axis=1, keepdims=True), 1e-12)
    sample = sampled_pairs(truth, seed=seed, variant="published")
    scores = (p[sample.pairs[0]] * p[sample.pairs[1]]).sum(axis=1)
    return float(ev.metrics.ranking(scores, sample.truth)["auc"])


def mlp(graph: Graph, how: dict[str, Any], seed: int, epsilons: list[float]) -> Runs:
    """The model that reads no edge."""
    settings = {"model": "mlp", "preset": "lpgnet"}
    yield {"model": "MLP", "epsilon": INF}, lambda: ev.defend(graph, "mlp", seed=seed, **settings, **how)


def gcn(graph: Graph, how: dict[str, Any], seed: int, epsilons: list[float]) -> Runs:
    """The model that reads all of them."""
    spec, train = gcn_spec(graph), preset("lpgnet", graph.name, "gcn").train
    row = {"model": "GCN", "epsilon": INF, "hidden": spec.hidden}
    yield row, lambda: ev.defend(graph, "none", model=spec, train=train, seed=seed, **how)


def lpgnet(variant: str, readout: str) -> Callable[..., Runs]:
    """LPGNet-1 and LPGNet-2 over the epsilons."""

    def part(graph: Graph, how: dict[str, Any], seed: int, epsilons: list[float]) -> Runs:
        for layers in (1, 2):
            for epsilon in [*epsilons, INF]:
                row = {"model": f"LPGNet-{layers}", "epsilon": epsilon, "variant": variant, "readout": readout}
                params: dict[str, Any] = {"layers": layers, "variant": variant, "readout": readout, "epsilon": epsilon}
                yield row, lambda p=params: ev.defend(graph, "lpgnet", seed=seed, **p, **how)

    return part


def tuned(graph: Graph, how: dict[str, Any], seed: int, epsilons: list[float]) -> Runs:
    """LPGNet-1 with the paper's read-out, its last MLP chosen among seven settings by validation accuracy.

    Same vectors as the untuned run; the seventh setting is the first MLP itself, which ignores the counts.
    """
    for epsilon in epsilons:
        yield (
            {"model": "LPGNet-1", "epsilon": epsilon, "variant": "correct", "readout": "mlp, tuned on accuracy"},
            lambda e=epsilon: choose_last_mlp(graph, seed, ev.defend(graph, "lpgnet", layers=1, epsilon=e, seed=seed)),
        )


def choose_last_mlp(graph: Graph, seed: int, release: ev.Release) -> Row:
    """Micro-F1 of the candidate with the best validation accuracy, ties by log-loss."""
    predictor: Any = release.predictor
    first = row_logits(predictor.models[0], release.matrix)
    x = FeatureMatrix.wrap(stack_features(None, first, predictor.vectors[0]))
    answers = [first]
    for lr, hidden in CANDIDATES:
        model = build(replace(predictor.spec, hidden=hidden), x.shape[1], graph.num_classes, seed=seed)
        train = replace(preset("lpgnet", graph.name, "mlp").train, lr=lr)
        fit(model, x, no_edges(graph.num_nodes), graph.y, graph.train_mask, graph.val_mask, train, seed=seed)
        answers.append(row_logits(model, x))
    val = graph.val_mask
    best = min(answers, key=lambda a: (-(a.argmax(1) == graph.y)[val].mean(), log_loss(a[val], graph.y[val])))
    return {"f1": float((best.argmax(1) == graph.y)[graph.test_mask].mean())}


def log_loss(logits: Any, y: Any) -> float:
    """Mean cross-entropy."""
    top = logits - logits.max(axis=1, keepdims=True)
    return float((np.log(np.exp(top).sum(axis=1)) - top[np.arange(len(y)), y]).mean())


def analysis(graph: Graph, how: dict[str, Any], seed: int, epsilons: list[float]) -> Runs:
    """Homophily by cluster (Fig. 3), cosines of degree vectors, share of noisy edges (Table 1); one seed is enough."""
    if seed == 0:
        yield {"model": "analysis", "epsilon": INF}, lambda: analyse(graph, epsilons)


def analyse(graph: Graph, epsilons: list[float]) -> Row:
    """One row of lists."""
    spec, train = gcn_spec(graph), preset("lpgnet", graph.name, "gcn").train
    stack = ev.defend(graph, "lpgnet-2", epsilon=INF, seed=0)
    predictor: Any = stack.predictor
    sources = {
        "true classes": graph.y,
        "MLP": row_logits(predictor.models[0], stack.matrix).argmax(1),
        "LPGNet-2 without noise": stack.predict().argmax(1),
        "LPGNet-2, epsilon 4": ev.defend(graph, "lpgnet-2", epsilon=4.0, seed=0).predict().argmax(1),
        "GCN": ev.defend(graph, "none", model=spec, train=train, seed=0).predict().argmax(1),
    }
    classes = graph.num_classes
    counts = cluster_degrees(graph, sources["MLP"], classes)
    asked = {e: LPGNet(epsilon=e, layers=1).perturb_counts(counts, e, 0) for e in [*epsilons, INF]}
    return {
        "homophily": {name: homophily_by_cluster(graph, y, classes).tolist() for name, y in sources.items()},
        "cosines": {str(e): list(cluster_cosines(x, graph.y)[1:]) for e, x in asked.items()},
        "noisy_edges": {
            str(e): noisy_edge_share(graph, ev.LapGraph(epsilon=e, count_epsilon=0.1).perturb(graph, seed=0))
            for e in epsilons
        },
    }


PARTS: dict[str, Callable[..., Runs]] = {
    "mlp": mlp,
    "gcn": gcn,
    "lpgnet": lpgnet("correct", "mlp"),
    "published": lpgnet("published", "mlp"),
    "bayes": lpgnet("correct", "bayes"),
    "tuned": tuned,
    "analysis": analysis,
}


def run(args: argparse.Namespace) -> None:
    """Measure everything that the row file does not hold yet."""
    path = Path(args.rows)
    done = {_key(row) for row in read_rows(path)} if path.exists() else set()
    for seed in range(args.first, args.seeds):
        for dataset in args.datasets.split(","):
            graph, how = graphs(dataset, seed)
            used = preset("lpgnet", graph.name, "mlp")
            settings = f"hidden {used.model.hidden}, dropout {used.model.dropout:g}, lr {used.train.lr:g}"
            for part in args.parts.split(","):
                for row, work in PARTS[part](graph, how, seed, args.epsilons):
                    row = {"dataset": dataset, "seed": seed, "settings": settings, **row}
                    if _key(row) in done or row["model"] in args.without:
                        continue
                    started = time.perf_counter()
                    found = work()
                    row |= found if isinstance(found, dict) else figures(found, how.get("inference_graph", graph), seed)
                    row["seconds"] = round(time.perf_counter() - started, 2)
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
                    print(row, flush=True)


def read_rows(path: Path) -> list[Row]:
    """All measured rows."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(str(row.get(k)) for k in ("dataset", "seed", "model", "epsilon", "variant", "readout"))


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    measure = commands.add_parser("run")
    measure.add_argument("--datasets", default="cora")
    measure.add_argument("--parts", default="mlp,gcn,lpgnet")
    measure.add_argument("--seeds", type=int, default=10, help="seeds first..seeds-1")
    measure.add_argument("--first", type=int, default=0)
    measure.add_argument("--epsilons", type=lambda s: [float(e) for e in s.split(",")], default=EPSILONS)
    measure.add_argument("--without", type=lambda s: s.split(","), default=[], help="models to leave out: LPGNet-2")
    measure.add_argument("--rows", default=str(Path(__file__).with_suffix(".jsonl")))
    measure.set_defaults(work=run)
    write = commands.add_parser("table")
    write.add_argument("--rows", default=str(Path(__file__).with_suffix(".jsonl")))
    write.add_argument("--reference")
    write.add_argument("--out", default="docs/fidelity-lpgnet.md")
    write.set_defaults(work=write_page)
    args = parser.parse_args(argv)
    args.work(args)


def write_page(args: argparse.Namespace) -> None:
    """Generate the page from rows."""
    from fidelity_lpgnet_page import page

    Path(args.out).write_text(page(read_rows(Path(args.rows)), args.reference), encoding="utf-8")


if __name__ == "__main__":
    main()
