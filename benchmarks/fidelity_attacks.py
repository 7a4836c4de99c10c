"""The attacks of LinkTeller's tables on the real graphs, cell by cell, and the attacks no table has.

    python benchmarks/fidelity_attacks.py [--only tables|beyond] [--page-only]

Tables I, II, V, VI, VII, IX (Twitch: one model trained on twitch-es, the authors' own three subsets per degree class)
(VI and VII: six trainings) and X, XI (Planetoid: all edges and as many non-edges, three draws). Beyond: query budgets, coarse answers, labels only,
fewer features, density beliefs. Writes docs/fidelity-attacks.md; figures are kept in benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import fidelity_attacks_page as page
import numpy as np
import scipy.sparse as sp

from edgeveil.attacks import density
from edgeveil.attacks.api import attack
from edgeveil.defences.api import defend
from edgeveil.graph.datasets import load
from edgeveil.graph.graph import Graph
from edgeveil.graph.scaling import Scaling
from edgeveil.metrics import at_belief, protocol, ranking, top_share
from edgeveil.models.presets import preset
from edgeveil.papers.agreement import compare
from edgeveil.papers.published import Published, published
from edgeveil.release.evaluation import Evaluation
from edgeveil.release.predictors import GraphPredictor
from edgeveil.release.release import Release
from edgeveil.release.target import Target

STORE = Path(__file__).parent / "results" / "fidelity_attacks.json"
TABLES = ("I", "II", "V", "VI", "VII", "IX", "X", "XI")
COUNTRIES = ("ru", "fr", "de", "engb", "ptbr")
PLANETOID = ("cora", "citeseer", "pubmed")
DEGREES = ("low", "unconstrained", "high")
ATTACKS = ("linkteller", "lsa2-post", "lsa2-attr")
VARIANTS = ("published", "correct")
DEEP_MODELS = 6  # after 50 epochs the three-layer model is not settled: another training seed is another model
Row = dict[str, Any]
Samples = dict[tuple[str, ...], list[float]]


@cache
def graph(name: str) -> Graph:
    """A real graph, with the public split where it has one."""
    return load(name, split="public" if name in PLANETOID else None)


@cache
def spanish(layers: int, seed: int) -> Release:
    """The paper's model on twitch-es: 2 layers of 256, or 3 of 64 trained for 50 epochs (App. G2)."""
    return defend(graph("twitch-es"), "none", seed=seed, preset="linkteller", **deep(layers))


def deep(layers: int) -> Row:
    """What App. G2 changes for a third layer."""
    if layers == 2:
        return {}
    base = preset("linkteller", "twitch-es", "gcn")
    return {"model": replace(base.model, layers=3, hidden=64), "train": replace(base.train, epochs=50)}


def abroad(country: str, layers: int, seed: int = 0) -> Release:
    """The Spanish model answering for another country, features scaled as in Spain."""
    home, there = spanish(layers, seed), graph(f"twitch-{country}")
    scaled = Scaling.fit("standard", graph("twitch-es").x).apply(there.x)
    known: Any = home.predictor
    predictor = GraphPredictor(known.spec, known.model, there.adjacency)
    return replace(home, predictor=predictor, matrix=scaled, dataset=there.name, evaluation=Evaluation.of(there))


def twitch(samples: Samples, country: str, layers: int, model: int = 0) -> None:
    """All attacks on three subsets of every degree class."""
    name, release, g = f"twitch-{country}", abroad(country, layers, model), graph(f"twitch-{country}")
    for degree in DEGREES:
        for seed in protocol.SUBSET_SEEDS:
            nodes = protocol.subset(g, degree, seed)
            for method in ATTACKS if layers == 2 else ATTACKS[:1]:
                for variant in VARIANTS:
                    result = attack(release, method, nodes=nodes, variant=variant)
                    truth = g.has_edges(*result.pairs)
                    figures = protocol.belief_figures(result.scores, truth)
                    keep(samples, (name, str(layers), degree, method, variant), figures)
            if layers == 2:
                samples[(name, "density", degree)].append(100 * float(truth.mean()))


def planetoid(samples: Samples, name: str) -> None:
    """All edges against as many non-edges."""
    g = graph(name)
    release = defend(g, "none", model="gcn", seed=0, preset="linkteller")
    for seed in protocol.SUBSET_SEEDS:
        pairs = protocol.balanced_pairs(g, seed)
        for method in ATTACKS:
            for variant in VARIANTS:
                result = attack(release, method, pairs=pairs.pairs, variant=variant)
                figures = protocol.belief_figures(result.scores, pairs.truth, protocol.BALANCED_BELIEFS, rounded=False)
                keep(samples, (name, "2", "", method, variant), figures)


def keep(samples: Samples, key: tuple[str, ...], figures: dict[str, dict[str, float]]) -> None:
    """Precision and recall per belief in percent, AUC once."""
    for belief, row in figures.items():
        for metric in ("precision", "recall"):
            samples[(*key, belief, metric)].append(100 * row[metric])
    samples[(*key, "", "auc")].append(next(iter(figures.values()))["auc"])


def judge(samples: Samples) -> list[Row]:
    """Every printed cell that was measured, beside ours."""
    rows = []
    for p in published("linkteller"):
        if p.table not in TABLES:
            continue
        for variant in VARIANTS:
            got = samples.get(key_of(p, variant))
            if not got or (p.table == "V" and variant == "correct"):
                continue
            c = compare(got, p.mean, p.std, p.unit)
            rows.append({
                "table": p.table, "dataset": p.dataset, "degree": p.degree, "belief": p.belief, "attack": p.attack,
                "metric": p.metric, "variant": variant, "printed": p.mean, "printed_sd": p.std, "ours": c.ours,
                "ours_sd": c.ours_std, "agrees": c.agrees, "z": c.z,
            })  # fmt: skip
    return rows


def key_of(p: Published, variant: str) -> tuple[str, ...]:
    """Where the samples of a printed figure are."""
    if p.table == "V":
        return (p.dataset, "density", p.degree)
    layers = "3" if p.table in ("VI", "VII") else "2"
    return (p.dataset, layers, p.degree, p.attack, variant, "" if p.metric == "auc" else p.belief, p.metric)


def tables() -> list[Row]:
    """Run every attack of the tables."""
    samples: Samples = defaultdict(list)
    for country in COUNTRIES:
        twitch(samples, country, 2)
        for model in range(DEEP_MODELS):
            twitch(samples, country, 3, model)
        print(f"twitch-{country}", flush=True)
    for name in PLANETOID:
        planetoid(samples, name)
        print(name, flush=True)
    return judge(samples)


# -- beyond the tables ------------------------------------------------------------------------------------------------


def quality(result: Any, g: Graph, **facts: Any) -> Row:
    """AUC, precision at the true density, and what it cost."""
    truth = g.has_edges(*result.pairs)
    precision = at_belief(result.scores, truth, float(truth.mean()))["precision"]
    return {**facts, "queries": result.queries, "auc": ranking(result.scores, truth)["auc"], "precision": precision}


def coarse(release: Release, g: Graph, nodes: Any, queries: int, name: str) -> list[Row]:
    """The full query attack and the grouped one on targets that answer ever more coarsely."""
    kinds: list[Row] = [{}, {"dtype": "float32"}, *({"decimals": d} for d in (6, 4, 3, 2))]
    kinds += [{"answer": "probabilities"}, *({"answer": "probabilities", "decimals": d} for d in (6, 4, 3, 2))]
    rows = []
    for kind in kinds:
        label = (
            ", ".join(str(v) + (" decimals" if k == "decimals" else "") for k, v in kind.items()) or "float64 logits"
        )
        full = quality(attack(Target.local(release, **kind), nodes=nodes, mode="query"), g)
        few = quality(attack(Target.local(release, **kind), "linkteller-grouped", nodes=nodes, queries=queries), g)
        rows.append({"target": name, "answers": label, "full": full, "grouped": few})
        print(name, label, flush=True)
    return rows


def knowledge(release: Release, g: Graph, nodes: Any) -> list[Row]:
    """Labels only, a part of the features, and beliefs from what an attacker may know."""
    exact = attack(release, nodes=nodes)
    rows = [quality(exact, g, case="all features, logits, exact")]
    rng = np.random.default_rng(0)
    for share in (0.5, 0.1, 0.02):
        columns = rng.choice(g.num_features, int(share * g.num_features), replace=False)
        result = attack(release, nodes=nodes, mode="query", controlled_features=columns)
        rows.append(quality(result, g, case=f"{share:.0%} of the features"))
    result = attack(Target.local(release, "labels"), "linkteller-labels", nodes=nodes)
    rows.append(quality(result, g, case="labels only, four steps, both signs"))
    return rows


def beliefs(release: Release, g: Graph, nodes: Any) -> list[Row]:
    """Density beliefs of App. E2 against the density of the attacked pairs."""
    result = attack(release, nodes=nodes)
    truth = g.has_edges(*result.pairs)
    rng = np.random.default_rng(1)
    edges, others = result.pairs[:, truth], result.pairs[:, ~truth]
    some = edges[:, rng.choice(edges.shape[1], 20, replace=False)]
    none = others[:, rng.choice(others.shape[1], 200, replace=False)]
    hub = int(np.bincount(edges.ravel()).argmax())
    friends = [int(a + b - hub) for a, b in edges.T if hub in (a, b)]
    outside = np.setdiff1d(np.arange(g.num_nodes), nodes)[:600]
    inside = edges_among(g, outside)
    x = g.x.toarray() if hasattr(g.x, "toarray") else g.x
    found = {
        "(a) 20 known edges": density.from_known_edges(result.scores, result.pairs, some),
        "(a) 20 known edges, 200 known non-edges": density.from_known_edges(result.scores, result.pairs, some, none),
        "(b) the relations of one node": density.from_node_relations(result.scores, result.pairs, hub, friends),
        "(c) link prediction from 600 other nodes": density.from_link_prediction(x, outside, inside, result.pairs),
        "(d) citeseer's density": density.from_similar_graph(graph("citeseer").num_nodes, graph("citeseer").num_edges),
    }
    return [
        {"how": how, "belief": b.density, "true": float(truth.mean()), **at_belief(result.scores, truth, b.density)}
        for how, b in found.items()
    ]


def edges_among(g: Graph, nodes: Any) -> Any:
    """Edges with both ends in `nodes`."""
    e = g.edge_index
    return e[:, np.isin(e, nodes).all(axis=0)]


def clusters(release: Release, g: Graph) -> Row:
    """LPGNet §5.4.1: share of the E best guesses that stay inside a predicted class, on all pairs."""
    guess = release.predict().argmax(axis=1)
    result = attack(release, "lsa2-post", keep=20 * g.num_edges)
    influence = attack(release, "linkteller")
    return {
        name: top_share(r.scores, guess[r.pairs[0]] == guess[r.pairs[1]], g.num_edges)
        for name, r in (("lsa2-post", result), ("linkteller", influence))
    }


def alone(release: Release, g: Graph, nodes: Any) -> list[Row]:
    """App. E5: every node answered on its own one-node graph."""

    known: Any = release.predictor
    no_edge = sp.csr_matrix(known.adjacency.shape, dtype=np.float32)
    apart = replace(release, predictor=GraphPredictor(known.spec, known.model, no_edge))
    single = np.concatenate([release.predict(nodes=[int(v)], induced=True) for v in nodes[:20]])
    assert np.allclose(apart.predict(nodes=nodes[:20]), single)  # one query instead of one per node
    rows = []
    for method in ("linkteller", "lsa2-post"):
        rows.append(quality(attack(apart, method, nodes=nodes), g, attack=method))
    mlp = defend(g, "mlp", seed=0, preset="linkteller")
    rows.append(
        quality(attack(mlp, "lsa2-post", nodes=nodes), g, attack="lsa2-post on an MLP, which never saw an edge")
    )
    rows.append(quality(attack(release, "lsa2-post", nodes=nodes), g, attack="lsa2-post on the whole graph's answers"))
    return rows


def beyond() -> Row:
    """Everything that no printed table covers."""
    cora = graph("cora")
    release = defend(cora, "none", model="gcn", seed=0, preset="linkteller")
    gat = defend(cora, "none", model="gat", seed=0)
    nodes = protocol.subset(cora, seed=42)
    ru = abroad("ru", 2)
    some = protocol.subset(graph("twitch-ru"), seed=42, size=300)
    return {
        "coarse": [
            *coarse(release, cora, nodes, 100, "cora, GCN, 500 nodes"),
            *coarse(gat, cora, nodes[:300], 60, "cora, GAT, 300 nodes"),
            *coarse(ru, graph("twitch-ru"), some, 80, "twitch-ru, GCN, 300 nodes"),
        ],
        "knowledge": knowledge(release, cora, nodes[:300]),
        "beliefs": beliefs(release, cora, nodes),
        "clusters": clusters(release, cora),
        "alone": alone(release, cora, nodes[:200]),
    }


def main() -> None:
    """Run what was asked for, keep it, write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=("tables", "beyond"))
    parser.add_argument("--page-only", action="store_true")
    args = parser.parse_args()
    STORE.parent.mkdir(exist_ok=True)
    store: Row = json.loads(STORE.read_text()) if STORE.exists() else {}
    for part, work in (("tables", tables), ("beyond", beyond)):
        if not args.page_only and args.only in (None, part):
            store[part] = work()
            STORE.write_text(json.dumps(store, indent=1, default=float) + "\n")
    page.write(store)


if __name__ == "__main__":
    main()
