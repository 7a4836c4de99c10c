"""Ways to ask for neighbour counts that veil-counts could take instead of its own, at the same epsilon.

python benchmarks/veil_variants.py cora citeseer chameleon --seeds 51 52 53 54   # only what is not stored yet
python benchmarks/veil_variants.py --table                                        # the table of docs/defences.md

Every variant shares the edge-free base, the split (20 labels per class, seed by seed) and the guard. A variant is judged
by its gain on *validation* nodes; test accuracy stands beside it and chooses nothing. The noise is seeded: this is an
experiment, not a release.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.cluster import KMeans

import edgeveil as ev
from edgeveil.defences.job import Job, make_job
from edgeveil.defences.lpgnet.bayes_readout import choose, read_counts
from edgeveil.defences.lpgnet.degree_vectors import DegreeNoise
from edgeveil.defences.veil.calibration import is_better, scores, temperature
from edgeveil.defences.veil.edge_free import feature_graph, fit_edge_free
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.assemble import build
from edgeveil.models.presets import preset
from edgeveil.models.train import fit
from edgeveil.release.lpgnet_predictor import log_softmax, row_logits
from edgeveil.release.predictors import no_edges
from edgeveil.release.readout_predictor import FORMS, readout_inputs

ROWS = Path(__file__).with_suffix(".jsonl")
EPSILONS = (1.0, 4.0, 8.0)
NEIGHBOURS = 15
Float = NDArray[np.float64]
Readings = dict[str, Float]


@dataclass(frozen=True, eq=False)
class Case:
    """One graph, one split, one epsilon, and what is known before any edge is read."""

    job: Job
    logits: Float
    epsilon: float
    rng: np.random.Generator

    @cached_property
    def classes(self) -> int:
        return int(self.job.graph.num_classes)

    @cached_property
    def prior(self) -> Float:
        """Calibrated probabilities, certain where a label trains."""
        heat = temperature(self.logits[self.val], self.y[self.val])
        found = np.exp(log_softmax(self.logits / heat))
        found[self.job.train_mask] = np.eye(self.classes)[self.y[self.job.train_mask]]
        return found

    @property
    def y(self) -> NDArray[np.int64]:
        assert self.job.graph.y is not None
        return self.job.graph.y

    @property
    def val(self) -> NDArray[np.bool_]:
        assert self.job.val_mask is not None
        return self.job.val_mask

    def clusters(self, logits: Float) -> NDArray[np.int64]:
        """The likeliest class, or the label of a training node."""
        return np.where(self.job.train_mask, self.y, logits.argmax(axis=1))

    def noisy(self, counts: Float, scale: float) -> Float:
        """Discrete Laplace noise of this scale on every cell."""
        chance = 1 - np.exp(-1 / scale)
        return np.asarray(counts + self.rng.geometric(chance, counts.shape) - self.rng.geometric(chance, counts.shape))

    def ask(self, clusters: NDArray[np.int64], scale: float, hears: Any = None) -> Float:
        """Noisy neighbours per cluster."""
        hears = self.job.graph.adjacency if hears is None else hears
        return self.noisy(hears @ np.eye(int(clusters.max()) + 1)[clusters], scale)

    def mlp(self, rows: Float, tag: str) -> Float:
        """LPGNet's MLP on these rows."""
        own, job = preset("lpgnet", self.job.graph.dataset, "mlp"), self.job
        model = build(own.model, rows.shape[1], self.classes, seed=job.model_seed("veil", tag))
        x = FeatureMatrix.wrap(rows)
        seed = job.model_seed("veil training", tag)
        fit(model, x, no_edges(len(rows)), self.y, job.train_mask, self.val, own.train, seed=seed)
        return row_logits(model, x)

    def mlps(self, counts: Float) -> Readings:
        heat = temperature(self.logits[self.val], self.y[self.val])
        return {form: self.mlp(readout_inputs(form, self.logits, counts, heat), form) for form in FORMS}

    def weighed(self, evidence: Float) -> Float:
        """Evidence added with the weight that validation nodes prefer."""
        reading = choose(self.logits, evidence, self.y, self.val)
        return log_softmax(self.logits / reading.temperature) + reading.weight * evidence

    def evidence(self, counts: Float, scale: float, prior: Float | None = None) -> Float:
        return read_counts(counts, self.prior if prior is None else prior, DegreeNoise("discrete", scale))[1]


def one_query(case: Case) -> Readings:
    """veil-counts as it is: scale 2/epsilon, Bayes' rule and three MLPs."""
    counts = case.ask(case.clusters(case.logits), 2 / case.epsilon)
    return {"bayes": case.weighed(case.evidence(counts, 2 / case.epsilon)), **case.mlps(counts)}


def smoothed(case: Case) -> Readings:
    """The same query; evidence is also shared between nodes with like features, which costs nothing."""
    counts = case.ask(case.clusters(case.logits), 2 / case.epsilon)
    own = case.evidence(counts, 2 / case.epsilon)
    near = feature_graph(case.job.train_features, NEIGHBOURS)
    share = sp.diags(1 / np.maximum(np.asarray(near.sum(axis=1)).ravel(), 1e-9)) @ near
    found = {f"bayes, {pull:g} of the neighbours'": case.weighed(own + pull * (share @ own)) for pull in (0, 0.5, 1)}
    return {**found, **case.mlps(counts)}


def two_queries(case: Case) -> Readings:
    """Half of epsilon each; the second counts clusters that the first has corrected."""
    scale = 4 / case.epsilon
    first = case.ask(case.clusters(case.logits), scale)
    evidence = case.evidence(first, scale)
    better = case.weighed(evidence)
    second = case.ask(case.clusters(better), scale)
    prior = np.exp(log_softmax(better))
    prior[case.job.train_mask] = case.prior[case.job.train_mask]
    more = case.evidence(second, scale, prior)
    rows = np.concatenate([case.logits, np.maximum(first, 0), np.maximum(second, 0)], axis=1)
    both = {"bayes": case.weighed(evidence + more), "bayes, second": case.weighed(more), "both": case.mlp(rows, "both")}
    return {**both, **case.mlps(second)}


def one_endpoint(case: Case) -> Readings:
    """Every pair is reported to one end only, by a public hash: scale 1/epsilon, half of the neighbours."""
    upper = sp.triu(case.job.graph.adjacency, 1).tocoo()
    low, high = upper.row.astype(np.int64), upper.col.astype(np.int64)
    first = ((low * 2_654_435_761 + high * 40_503) >> 7 & 1).astype(bool)
    places = np.where(first, low, high), np.where(first, high, low)
    hears = sp.csr_matrix((np.ones(len(low)), places), shape=upper.shape)
    counts = case.ask(case.clusters(case.logits), 1 / case.epsilon, hears)
    return {"bayes": case.weighed(case.evidence(counts, 1 / case.epsilon)), **case.mlps(counts)}


def soft(case: Case) -> Readings:
    """Neighbours add their class probabilities instead of one count; the L1 sensitivity stays 2."""
    sums = case.job.graph.adjacency @ case.prior
    return case.mlps(sums + case.rng.laplace(0, 2 / case.epsilon, sums.shape))


def finer(case: Case) -> Readings:
    """Twice as many clusters as classes, by k-means on the base's log-probabilities."""
    found = KMeans(2 * case.classes, n_init=2, random_state=0).fit(log_softmax(case.logits))
    counts = case.ask(found.labels_.astype(np.int64), 2 / case.epsilon)
    return {"mlp": case.mlp(np.concatenate([case.logits, np.maximum(counts, 0)], axis=1), "finer")}


VARIANTS: dict[str, Callable[[Case], Readings]] = {
    "one query (veil-counts)": one_query, "evidence shared by like nodes": smoothed, "two queries": two_queries,
    "one endpoint": one_endpoint, "soft clusters": soft, "twice as many clusters": finer,
}  # fmt: skip


def measured(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Every variant at every epsilon on one split."""
    graph = ev.load(dataset, split="20-per-class", split_seed=seed)
    own = preset("default", graph.dataset, "gcn")
    job = make_job(
        graph, None, None, model=own.model, train=own.train, scaling=own.scaling, fit_scaling_on="all nodes", seed=seed
    )
    logits = fit_edge_free(job, NEIGHBOURS).predictor(job.train_features).logits(job.train_features)
    assert graph.y is not None and graph.masks is not None
    parts = {"validation": graph.masks.val, "test": graph.masks.test}
    for epsilon in EPSILONS:
        for number, (name, variant) in enumerate(VARIANTS.items()):
            case = Case(job, logits, epsilon, np.random.default_rng([seed, int(10 * epsilon), number]))
            found = variant(case)
            best = max(found, key=lambda key: float(scores(found[key][case.val], case.y[case.val]).mean()))
            kept = is_better(found[best][case.val], logits[case.val], case.y[case.val])
            answer = found[best] if kept else logits
            reached = {part: float(scores(answer[mask], graph.y[mask]).mean()) for part, mask in parts.items()}
            base = {f"base {part}": float(scores(logits[mask], graph.y[mask]).mean()) for part, mask in parts.items()}
            reading = best if kept else "base"
            yield {
                "dataset": dataset, "seed": seed, "epsilon": epsilon, "variant": name, "reading": reading,
                **{key: round(value, 4) for key, value in (reached | base).items()},
            }  # fmt: skip


def stored() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


def table() -> str:
    """Gain over veil-counts in points on the same splits, validation first, test in brackets."""
    rows, cells = stored(), defaultdict(dict)
    for row in rows:
        cells[row["dataset"], row["epsilon"], row["variant"]][row["seed"]] = row["validation"], row["test"]
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    plain, *others = VARIANTS
    lines = []
    for dataset in datasets:
        seeds = len(cells[dataset, EPSILONS[0], plain])
        lines += [
            f"| {dataset}, {seeds} splits | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |",
            "|---|---|---|---|",
        ]
        for name in others:
            lines.append(f"| {name} | " + " | ".join(_gain(cells, dataset, e, name, plain) for e in EPSILONS) + " |")
        lines.append("")
    return "\n".join(lines)


def _gain(cells: Any, dataset: str, epsilon: float, name: str, plain: str) -> str:
    ours, theirs = cells[dataset, epsilon, plain], cells[dataset, epsilon, name]
    gains = 100 * np.array([np.subtract(theirs[seed], ours[seed]) for seed in sorted(ours.keys() & theirs.keys())])
    error = gains.std(axis=0, ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.full(2, np.nan)
    return f"{gains[:, 0].mean():+.1f} ± {error[0]:.1f} ({gains[:, 1].mean():+.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*")
    parser.add_argument("--seeds", nargs="+", type=int, default=[51, 52, 53, 54])
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    done = {(row["dataset"], row["seed"]) for row in stored()}
    for seed in asked.seeds:
        for dataset in asked.datasets:
            if (dataset, seed) not in done:
                lines = [json.dumps(row) + "\n" for row in measured(dataset, seed)]
                with ROWS.open("a") as out:
                    out.writelines(lines)
    if asked.table:
        print(table())


if __name__ == "__main__":
    main()
