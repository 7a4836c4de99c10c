"""A defence with a predictor of its own and an (epsilon, delta) charge, in one file outside the package.

After GAP (Sajadmanesh et al., USENIX Security 2023): an MLP encodes the features without reading an edge, the encoded
rows are summed over neighbours under Gaussian noise, once per hop, and a second MLP classifies what came out. An edge
adds one row of length at most 1 to two sums, so the L2 sensitivity of one hop is sqrt(2). Noise is whole: rows lie on a
grid, rounded towards zero so that none gets longer, their sums are exact, and the discrete Gaussian counts grid steps.

Python:        ev.load_plugin("examples/gap_defence.py"); ev.defend(graph, "gap-like", epsilon=4.0)
Command line:  edgeveil audit cora-twin --plugin examples/gap_defence.py --defence none,mlp,gap-like --set hops=2
Run:           python examples/gap_defence.py
"""

import math
import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

import edgeveil as ev
from edgeveil.defences.defence import DEFENCES, Defence, fit_model, make_release
from edgeveil.defences.job import Job
from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.models.assemble import build, load_arrays, predict_logits, state_arrays
from edgeveil.models.spec import ModelSpec
from edgeveil.models.train import fit
from edgeveil.privacy.budget import Budget, check_epsilon
from edgeveil.privacy.guarantee import Guarantee, Status
from edgeveil.privacy.noise import noise_for
from edgeveil.release.predictors import PREDICTORS, Predictor, no_edges
from edgeveil.release.release import Release

GRID = 256  # steps per unit


def unit_rows(rows: Any) -> Any:
    """Rows of length 1 (0 stays 0)."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)


@PREDICTORS.register("gap-like")
class GapPredictor(Predictor):
    """Encoder and classifier over stored noisy sums. The graph is not here; no answer reads another node's row."""

    kind = "gap-like"
    rowwise = True

    def __init__(self, spec: ModelSpec, encoder: Any, classifier: Any, sums: Any) -> None:
        self.spec, self.encoder, self.classifier, self.sums = spec, encoder, classifier, sums
        self.num_nodes, self.num_outputs = len(sums), classifier.num_outputs

    def logits(self, x: FeatureMatrix) -> Any:
        """Each row from its own features and its own stored sums."""
        own = unit_rows(predict_logits(self.encoder, x, no_edges(x.shape[0])))
        return predict_logits(self.classifier, FeatureMatrix.wrap(np.hstack([own, self.sums])), no_edges(x.shape[0]))

    def induced(self, nodes: Any) -> "GapPredictor":
        """The sums stay: those of a subgraph would cost epsilon again."""
        return GapPredictor(self.spec, self.encoder, self.classifier, self.sums[nodes])

    def state(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Settings, weights, and what was paid for."""
        parts = {"encoder": self.encoder, "classifier": self.classifier}
        weights = {
            f"{name}/{key}": value for name, model in parts.items() for key, value in state_arrays(model).items()
        }
        sizes = {name: [model.num_features, model.num_outputs] for name, model in parts.items()}
        return {"model": self.spec.to_json(), "sizes": sizes}, weights, {"sums": self.sums}

    @classmethod
    def from_state(cls, settings: Any, weights: Any, structure: Any) -> "GapPredictor":
        """Inverse of `state`."""
        spec, models = ModelSpec.from_json(settings["model"]), []
        for name in ("encoder", "classifier"):
            model = build(spec, *settings["sizes"][name], seed=0)
            load_arrays(model, {k.partition("/")[2]: v for k, v in weights.items() if k.startswith(f"{name}/")})
            models.append(model)
        return cls(spec, *models, structure["sums"])


@DEFENCES.register("gap-like")
@dataclass(frozen=True, kw_only=True)
class GapLike(Defence):
    """Noisy neighbour sums of edge-free encodings, under zero-concentrated differential privacy."""

    epsilon: float
    """For one undirected edge, at `delta`."""
    delta: float = 1e-6
    """Chance that the privacy loss exceeds epsilon."""
    hops: int = 2
    """How often encodings are summed over neighbours; every hop is a query."""

    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "after Sajadmanesh et al., GAP, USENIX Security 2023"
    own_model: ClassVar[str | None] = "mlp"

    def release(self, job: Job) -> Release:
        """Encode, ask for one noisy sum per hop, classify."""
        if job.setting != "transductive":
            raise InputError(
                f"gap-like answers for the graph it is trained on; the setting {job.setting!r} is not built"
            )
        if self.hops < 1:
            raise InputError(f"hops must be at least 1, got {self.hops}")
        started = time.perf_counter()
        budget = Budget(check_epsilon(self.epsilon), delta=self.delta, accountant="zcdp")
        spec = job.model if job.model.local else replace(job.model, name="mlp", bias="after", skip=None, kprop=0)
        encoder = fit_model(job, spec, job.train_features, None)
        own = unit_rows(predict_logits(encoder, job.train_features, no_edges(job.graph.num_nodes)))
        sums = self._sums(job.graph, own, budget, job.noise_seed("gap"))
        predictor = GapPredictor(spec, encoder, self._classifier(job, spec, np.hstack([own, sums])), sums)
        guarantee = Guarantee(
            status="sound", claimed_epsilon=float(budget.cap), delta=budget.delta, accountant=budget.accountant,
            charges=budget.charges, composition="the hops compose; everything else is post-processing",
            randomness=job.randomness, reference=self.reference,
        )  # fmt: skip
        return make_release(self, job, predictor, guarantee, seconds=time.perf_counter() - started)

    def _sums(self, graph: Graph, rows: Any, budget: Budget, seed: int | None) -> Any:
        """Per hop: rows on the grid, exact sums over neighbours, noise, and lengths 1 again (post-processing)."""
        far = GRID * math.sqrt(2)
        scale = budget.gaussian_scale(self.hops, sensitivity=far)
        noise, found = noise_for(seed, "gap"), []
        adjacency = graph.adjacency.astype(np.int64)
        for hop in range(self.hops):
            budget.spend_gaussian(scale, f"neighbour sums, hop {hop + 1}", sensitivity=far)
            exact = adjacency @ np.trunc(rows * GRID).astype(np.int64)
            drawn = noise.discrete_gaussian(scale, exact.size).reshape(exact.shape)
            rows = unit_rows((exact + drawn) / GRID)
            found.append(rows)
        return np.hstack(found)

    def _classifier(self, job: Job, spec: ModelSpec, rows: Any) -> Any:
        assert job.graph.y is not None
        model = build(spec, rows.shape[1], job.graph.num_classes, seed=job.model_seed("gap classifier"))
        fit(
            model, FeatureMatrix.wrap(rows), no_edges(len(rows)), job.graph.y, job.train_mask, job.val_mask,
            job.train_spec, seed=job.model_seed("gap training"), multilabel=job.graph.multilabel,
        )  # fmt: skip
        return model


if __name__ == "__main__":
    graph = ev.load("cora-twin")
    for name, epsilon in (("mlp", None), ("gap-like", 8.0)):
        release = ev.defend(graph, name, epsilon=epsilon, seed=0)
        print(release, release.utility("test")["accuracy"])
    print(release.guarantee.statement())
