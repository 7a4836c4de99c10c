"""Training and inference against the same models on PyTorch Geometric's edge_index path, one thread.

    python benchmarks/bench_training.py [--quick]

Training step: twitch-es (the synthetic twin where the real graph is absent), LinkTeller's model, all nodes labelled.
Attention: the same graph, GraphPrivatizer's sizes (four heads of 16). Forward: flickr-twin, LinkTeller's model. Both sides have the same shapes, the same normalised edges and the same
standardised features (dense there, sparse plus one row here). Times are the best processor seconds of alternating
repetitions, so that a busy machine does not decide. --quick repeats less often.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, TransformerConv

from edgeveil.errors import DatasetUnavailable
from edgeveil.graph.datasets import load
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.graph.scaling import Scaling
from edgeveil.graph.sparse import normalise
from edgeveil.models import Model, ModelSpec, Structure, build, preset
from edgeveil.models.adam import Adam
from edgeveil.models.kernels.operand import as_operand

Logits = Callable[[], torch.Tensor]
RESULTS = Path(__file__).parent / "results"


class Plain(torch.nn.Module):
    """Two PyG graph convolutions on given edge weights."""

    def __init__(self, sizes: tuple[int, int, int], dropout: float) -> None:
        super().__init__()
        self.first = GCNConv(sizes[0], sizes[1], normalize=False)
        self.second = GCNConv(sizes[1], sizes[2], normalize=False)
        self.dropout = dropout

    def forward(self, x: torch.Tensor, edges: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Logits."""
        h = torch.relu(self.first(x, edges, weights))
        h = torch.nn.functional.dropout(h, self.dropout, self.training)
        return self.second(h, edges, weights)


class PlainAttention(torch.nn.Module):
    """Two PyG attention layers: heads joined, then averaged."""

    def __init__(self, name: str, sizes: tuple[int, int, int], heads: int, dropout: float) -> None:
        super().__init__()
        kind = {"gat": GATConv, "gatv2": GATv2Conv, "transformer": TransformerConv}[name]
        self.first = kind(sizes[0], sizes[1], heads=heads)
        self.second = kind(heads * sizes[1], sizes[2], heads=1, concat=False)
        self.dropout = dropout

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Logits."""
        h = torch.selu(self.first(x, edges))
        return self.second(torch.nn.functional.dropout(h, self.dropout, self.training), edges)


def plain_inputs(graph: Graph, x: FeatureMatrix, norm: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Dense features, edge_index and weights of the same propagation matrix."""
    p = normalise(graph.adjacency, norm).tocoo()
    edges = torch.tensor(np.stack([p.col, p.row]), dtype=torch.int64)
    return torch.tensor(x.toarray(), dtype=torch.float32), edges, torch.tensor(p.data, dtype=torch.float32)


def best_of(sides: dict[str, Callable[[], Any]], repetitions: int) -> dict[str, float]:
    """Best processor milliseconds of each side, taken in turns after one warm-up."""
    found = {name: float("inf") for name in sides}
    for turn in range(repetitions + 1):
        for name, work in sides.items():
            started = time.process_time()
            work()
            if turn:
                found[name] = min(found[name], 1e3 * (time.process_time() - started))
    return found


def twitch() -> Graph:
    """The real graph if there is one, else its twin."""
    try:
        return load("twitch-es")
    except DatasetUnavailable:
        return load("twitch-es-twin")


def race(
    graph: str, y: torch.Tensor, ours: Logits, adam: Adam, theirs: Logits, other: torch.optim.Optimizer, times: int
) -> dict[str, Any]:
    """One optimiser step of either side, in turns."""

    def step(logits: Logits, clear: Callable[[], Any], move: Callable[[], Any]) -> None:
        clear()
        torch.nn.functional.cross_entropy(logits(), y).backward()
        move()

    found = best_of(
        {"ours": lambda: step(ours, adam.clear, adam.step), "pyg": lambda: step(theirs, other.zero_grad, other.step)},
        times,
    )
    return {"graph": graph, **found, "ratio": found["pyg"] / found["ours"]}


def training_step(repetitions: int) -> dict[str, Any]:
    """One optimiser step on twitch-es."""
    graph, settings = twitch(), preset("linkteller", "twitch-es", "gcn")
    x = Scaling.fit(settings.scaling, graph.x).apply(graph.x)
    y = torch.tensor(graph.y)
    spec = settings.model
    model = build(spec, graph.num_features, 2, seed=0).train()
    structure, operand = Structure(graph.adjacency).remembering(), as_operand(x)
    adam = Adam([(model.parameters(), 5e-4)], 0.01)
    plain = Plain((graph.num_features, spec.hidden, 2), spec.dropout).train()
    inputs = plain_inputs(graph, x, spec.norm)
    other = torch.optim.Adam(plain.parameters(), lr=0.01, weight_decay=5e-4)

    return race(graph.name, y, lambda: model(operand, structure), adam, lambda: plain(*inputs), other, repetitions)


def attention_step(name: str, repetitions: int) -> dict[str, Any]:
    """One optimiser step of an attention model on twitch-es."""
    graph = twitch()
    x = Scaling.fit("standard", graph.x).apply(graph.x)
    y = torch.tensor(graph.y)
    spec = ModelSpec(name=name, hidden=16, heads=4, dropout=0.5, activation="selu")
    model = build(spec, graph.num_features, 2, seed=0).train()
    structure, operand = Structure(graph.adjacency).remembering(), as_operand(x)
    adam = Adam([(model.parameters(), 5e-4)], 0.01)
    plain = PlainAttention(name, (graph.num_features, spec.hidden, 2), spec.heads, spec.dropout).train()
    dense, edges = (
        torch.tensor(x.toarray(), dtype=torch.float32),
        torch.tensor(np.stack(graph.adjacency.nonzero()), dtype=torch.int64),
    )
    other = torch.optim.Adam(plain.parameters(), lr=0.01, weight_decay=5e-4)

    return race(graph.name, y, lambda: model(operand, structure), adam, lambda: plain(dense, edges), other, repetitions)


def agree(model: Model, plain: Plain, x: FeatureMatrix, structure: Structure, inputs: Any) -> float:
    """Largest difference of logits after giving both sides the same weights: the comparison is of equals."""
    with torch.no_grad():
        for mine, other in zip(model.layers, (plain.first, plain.second), strict=True):
            other.lin.weight.copy_(mine.weight.T)
            other.bias.copy_(mine.bias)
        return float((model(as_operand(x), structure) - plain(*inputs)).abs().max())


def forward(repetitions: int) -> dict[str, Any]:
    """Inference on flickr-twin, with and without stored propagated features."""
    graph, settings = load("flickr-twin"), preset("linkteller", "flickr", "gcn")
    x = Scaling.fit(settings.scaling, graph.x).apply(graph.x)
    spec: ModelSpec = settings.model
    model = build(spec, graph.num_features, graph.num_classes, seed=0).eval()
    fresh, stored = Structure(graph.adjacency), Structure(graph.adjacency).remembering()
    plain = Plain((graph.num_features, spec.hidden, graph.num_classes), spec.dropout).eval()
    inputs = plain_inputs(graph, x, spec.norm)
    difference = agree(model, plain, x, fresh, inputs)
    assert difference < 1e-3, difference
    operand = as_operand(x)
    with torch.no_grad():
        found = best_of(
            {
                "stored": lambda: model(operand, stored),
                "fresh": lambda: model(operand, fresh),
                "pyg": lambda: plain(*inputs),
            },
            repetitions,
        )
    return {
        "graph": graph.name, "nodes": graph.num_nodes, "edges": graph.num_edges, "difference": difference, **found,
        "ratio_stored": found["pyg"] / found["stored"], "ratio_fresh": found["pyg"] / found["fresh"],
    }  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    """Print the ratios and keep them as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args(argv).quick
    torch.set_num_threads(1)
    step = training_step(4 if quick else 12)
    print(
        f"GCN training step, {step['graph']}: {step['ours']:.1f} ms against {step['pyg']:.1f} ms = {step['ratio']:.1f}x"
    )
    attention = {name: attention_step(name, 3 if quick else 8) for name in ("gat", "gatv2", "transformer")}
    for name, own in attention.items():
        print(f"{name} training step: {own['ours']:.1f} ms against {own['pyg']:.1f} ms = {own['ratio']:.1f}x")
    passes = forward(2 if quick else 6)
    print(
        f"GCN forward, {passes['graph']} ({passes['edges']:,} edges): PX stored {passes['stored']:.0f} ms = "
        f"{passes['ratio_stored']:.1f}x, not stored {passes['fresh']:.0f} ms = {passes['ratio_fresh']:.1f}x, "
        f"PyG {passes['pyg']:.0f} ms"
    )
    RESULTS.mkdir(exist_ok=True)
    rows = {
        "quick": quick,
        "training_step": step,
        "attention": attention,
        "forward": passes,
        "torch": torch.__version__,
    }
    (RESULTS / "training.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
