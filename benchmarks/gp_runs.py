"""One GraphPrivatizer run, in the paper's protocol: train, measure accuracy, attack. Used by the fidelity script."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import edgeveil as ev
from edgeveil.defences.api import make_defence
from edgeveil.defences.graphprivatizer.local import LocalMechanism, without_kprop
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import sample_distinct
from edgeveil.metrics.protocol import PairSample, sampled_pairs
from edgeveil.models.assemble import build
from edgeveil.models.drop import Drop
from edgeveil.models.presets import preset
from edgeveil.models.structure import Structure
from edgeveil.models.train import fit
from edgeveil.papers.graphprivatizer_tables import CODE
from edgeveil.release.evaluation import Evaluation
from edgeveil.release.predictors import GraphPredictor
from edgeveil.release.release import Release
from edgeveil.seeds import derive, stream

MODELS = ("gcn", "sage", "graphconv", "gat", "transformer", "gatv2")


class Recording(Drop):
    """Drop that also remembers the logits of the epoch the authors' code reports.

    An epoch is reported if, against the last one reported, validation loss falls and both accuracies on noisy
    labels rise without exceeding what the label noise allows.
    """

    best: tuple[float, float, float] = (math.inf, 0.0, 0.0)
    logits: Any = None

    def validate(self, logits: torch.Tensor) -> tuple[float, float] | None:
        """Validation figures; keeps the logits when the rule holds."""
        found = super().validate(logits)
        assert found is not None
        (loss, val), (_, train) = found, self.measure(logits, self.train)
        before = self.best
        if loss < before[0] and before[1] < val <= self.keep and before[2] < train <= 1.05 * self.keep:
            self.best, self.logits = (loss, val, train), logits.detach().clone()
        return found


def published_pairs(graph: Graph, size: int, seed: int) -> PairSample:
    """The authors' pairs: uniform edges; non-edges among the first 2E places of the matrix that hold none.

    The same sets as `edgeveil.runs.score.first_rows_pairs` but other draws from them, kept so that stored runs stay
    comparable with new ones of the same seed.
    """
    rng = stream(seed, "published pairs")
    edges = graph.edge_index[:, sample_distinct(graph.num_edges, size, rng)]
    wanted, n = 2 * graph.num_edges, graph.num_nodes
    rows = min(n, wanted // max(n - int(graph.degrees.max()) - 1, 1) + 2)
    u, v = (part.ravel() for part in np.divmod(np.arange(rows * n), n))
    free = np.flatnonzero((u != v) & ~graph.has_edges(u, v))[:wanted]
    chosen = free[sample_distinct(len(free), size, rng)]
    return PairSample(np.concatenate([edges, np.stack([u[chosen], v[chosen]])], axis=1), np.repeat([True, False], size))


_sent: dict[Any, tuple[Graph, Any, Structure]] = {}


def reports(graph: Graph, mechanism: LocalMechanism, seed: int) -> tuple[Any, Structure]:
    """What all nodes send; kept while the next runs want the same, since every model of a seed learns from it."""
    key = (mechanism, seed)
    if key not in _sent or _sent[key][0] is not graph:
        _sent.clear()
        sent = mechanism.perturb(graph, seed=derive(seed, "noise"))
        _sent[key] = graph, sent, Structure(sent.directed)
    return _sent[key][1:]


def train_published(
    graph: Graph, mechanism: LocalMechanism, model: str, seed: int, steps: tuple[int, int] | None, settings: str
) -> tuple[Release, float]:
    """The model of the last epoch, which the code attacks, and the accuracy of the best epoch, which it reports.

    `steps` are other K_x and K_y than the paper's; `settings` whose learning rate, decay and dropout count, those of the
    "code" or of the "text".
    """
    base = preset("graphprivatizer", graph.dataset, model)
    if steps is not None:
        base = replace(base, model=replace(base.model, kprop=steps[0]), label_steps=steps[1])
    text = (0.01, 1e-3, 0.5)
    lr, decay, dropout = text if settings == "text" else CODE.get(graph.name.removesuffix("-twin"), text)
    sent, structure = reports(graph, mechanism, seed)
    assert graph.masks is not None and sent.features is not None and sent.y is not None and graph.y is not None
    spec = replace(base.model, dropout=dropout)
    network = build(spec, sent.features.shape[1], graph.num_classes, seed=derive(seed, "weights"))
    drop = Recording(
        sent.y, graph.masks.train, graph.masks.val, structure, classes=graph.num_classes,
        epsilon=mechanism.epsilon_y, steps=base.label_steps, published=True,
    )  # fmt: skip
    train = replace(base.train, keep="last", lr=lr, weight_decay=decay)
    fit(
        network, sent.features, structure, sent.y, graph.masks.train, graph.masks.val, train,
        seed=derive(seed, "training"), objective=drop, progress=lambda *_: None,
    )  # fmt: skip
    release = Release(
        defence="published", guarantee=mechanism.mechanism_guarantee(seed), matrix=sent.features,
        evaluation=Evaluation.of(graph), predictor=GraphPredictor(spec, network, sent.directed),
    )  # fmt: skip
    test = graph.masks.test
    logits = release.predict() if drop.logits is None else drop.logits.numpy()
    return release, float((logits.argmax(1)[test] == graph.y[test]).mean())


def auc(release: Any, sample: PairSample, attack: str, **how: Any) -> float:
    """AUC of one attack on a release or target."""
    result = ev.attack(release, attack, pairs=sample.pairs, **how)
    return float(ev.metrics.ranking(result.scores, sample.truth)["auc"])


def _num_pairs(release: Release) -> int:
    """500 for the models without attention and 150 for those with it; fewer on graphs where a question takes long."""
    predictor = release.predictor
    assert isinstance(predictor, GraphPredictor)
    entries = predictor.adjacency.nnz
    if predictor.spec.attends:
        return 150 if entries <= 60_000 else 60
    return 500 if entries <= 1_000_000 else 150


def run(
    graph: Graph, defence: str, model: str, seed: int, *, variant: str, pairs: int,
    steps: Any = None, settings: str = "code", **params: Any,
) -> dict[str, Any]:  # fmt: skip
    """Accuracy and attack figures of one run, in percent.

    published: KProp bypassed, one direction, the authors' pairs (fewer than their 500 + 500 where a question is slow:
    `_num_pairs`), single-precision differences of probabilities at delta = 0.001 (`auc_bypass`), or exact derivatives of
    logits (`auc_bypass_exact`). correct: uniform pairs, both directions, through the model that answers (`auc`), in
    query mode. GraphSAGE is attacked with LSA2, as in the paper.
    """
    own = params | {"variant": variant} if defence in ("gp-t", "gp-m", "rr") else params
    figures: dict[str, Any] = {}
    if (steps is not None or settings != "code") and variant != "published":
        raise ValueError("other KProp steps and settings are for published runs")
    lsa = model == "sage"
    if variant == "published":
        mechanism = make_defence(defence, **own)
        assert isinstance(mechanism, LocalMechanism)
        release, accuracy = train_published(graph, mechanism, model, seed, steps, settings)
        figures["published_pairs"] = _num_pairs(release)
        sample = published_pairs(graph, figures["published_pairs"], seed)
        bypass = without_kprop(release)
        if lsa:
            figures["auc_bypass"] = 100 * auc(bypass, sample, "lsa2-post", variant="published")
        else:
            figures["auc_bypass_exact"] = 100 * auc(bypass, sample, "linkteller", mode="exact", variant="published")
            coarse = ev.Target.local(bypass, answer="probabilities", dtype="float32")
            figures["auc_bypass"] = 100 * auc(
                coarse, sample, "linkteller", mode="query", delta=0.001, variant="published"
            )  # fmt: skip
    else:
        release = ev.defend(graph, defence, model=model, seed=seed, **own)
        accuracy = release.utility("test")["accuracy"]
    if pairs:
        sample = sampled_pairs(graph, pairs, pairs, seed)
        figures["auc"] = 100 * (
            auc(release, sample, "lsa2-post") if lsa else auc(release, sample, "linkteller", mode="query")
        )  # fmt: skip
        figures["pairs"] = pairs
    adjacency = getattr(release.predictor, "adjacency", None)
    return figures | {"accuracy": 100 * accuracy, "entries": 0 if adjacency is None else int(adjacency.nnz)}
