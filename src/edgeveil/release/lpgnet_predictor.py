"""Answers of LPGNet: stacked MLPs over stored noisy degree vectors (LPGNet Alg. 3).

The private graph is not here and cannot be asked again: vectors that were paid for once are part of the release, and
every later answer is post-processing. Only the last logits leave the predictor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.assemble import build, load_arrays, predict_logits, state_arrays
from edgeveil.models.spec import ModelSpec
from edgeveil.release.predictors import PREDICTORS, Arrays, Logits, Predictor, no_edges
from edgeveil.release.target import StoredCounts

__all__ = ["CountNoise", "LPGNetPredictor", "log_softmax", "row_logits", "stack_features"]


class CountNoise(NamedTuple):
    """What is public about the noise on stored counts: its law, its scale (0: none), and whether they were clipped."""

    law: str
    scale: float
    clipped: bool

    def on(self, counts: NDArray[Any], clusters: NDArray[np.int64], *, evidence: bool = False) -> StoredCounts:
        """The counts of one query, or the evidence read off them, with their law."""
        return StoredCounts(
            counts=counts, clusters=clusters, law=self.law, scale=float(self.scale), clipped=self.clipped,
            evidence=evidence,
        )  # fmt: skip


def stack_features(before: NDArray[Any] | None, logits: NDArray[Any], vectors: NDArray[Any]) -> NDArray[Any]:
    """F_1 = L_0 ^ X_0 and F_{i+1} = F_i ^ (L_i ^ X_i): raw logits and raw counts, nothing scaled."""
    parts = [logits, vectors] if before is None else [before, logits, vectors]
    return np.concatenate(parts, axis=1)


@PREDICTORS.register("lpgnet")
class LPGNetPredictor(Predictor):
    """`models[0]` reads features, `models[i]` reads logits and vectors of all earlier layers.

    With `evidence` (the Bayesian read-out) there is one model, and the answer is its log-probabilities at
    `temperature` plus the stored evidence of the counts. `noise` is that of the stored vectors; releases made before it
    was recorded have None.
    """

    kind = "lpgnet"
    stores_rows = True
    rowwise = True

    def __init__(
        self,
        spec: ModelSpec,
        models: list[Any],
        vectors: list[NDArray[Any]],
        evidence: NDArray[np.float64] | None = None,
        temperature: float = 1.0,
        noise: CountNoise | None = None,
    ) -> None:
        self.noise, self.stores_counts = noise, noise is not None
        self.spec, self.models, self.vectors = spec, models, vectors
        self.evidence, self.temperature = evidence, temperature
        self.num_nodes = len(vectors[0])
        self.num_outputs = int(models[0].num_outputs)

    def logits(self, x: FeatureMatrix) -> Logits:
        if x.shape[0] != self.num_nodes:
            raise InputError(
                f"this release stores degree vectors of {self.num_nodes} nodes, not {x.shape[0]}; another graph "
                "needs a new release with its own epsilon: defend(..., inference_graph=other)"
            )
        out = row_logits(self.models[0], x)
        if self.evidence is not None:
            return log_softmax(out / self.temperature) + self.evidence
        features: NDArray[Any] | None = None
        for model, vectors in zip(self.models[1:], self.vectors, strict=True):
            features = stack_features(features, out, vectors)
            out = row_logits(model, FeatureMatrix.wrap(features))
        return out

    def stored_counts(self, x: FeatureMatrix) -> tuple[StoredCounts, ...]:
        """Every query with the clusters that it counted: the classes of the MLP before it, which anyone can compute.

        The Bayesian read-out keeps the evidence of all layers as one sum, so that only its first clusters are known.
        """
        if self.noise is None:
            return ()
        out, features, found = row_logits(self.models[0], x), None, []
        for number, vectors in enumerate(self.vectors[:1] if self.evidence is not None else self.vectors):
            found.append(self.noise.on(vectors, out.argmax(axis=1)))
            if number + 1 < len(self.vectors) and self.evidence is None:
                features = stack_features(features, out, vectors)
                out = row_logits(self.models[number + 1], FeatureMatrix.wrap(features))
        return tuple(found)

    def induced(self, nodes: NDArray[np.int64]) -> LPGNetPredictor:
        """The same nodes with the vectors stored for the whole graph: those of a subgraph would cost epsilon again."""
        evidence = None if self.evidence is None else self.evidence[nodes]
        vectors = [v[nodes] for v in self.vectors]
        return LPGNetPredictor(self.spec, self.models, vectors, evidence, self.temperature, self.noise)

    def state(self) -> tuple[dict[str, Any], Arrays, Arrays]:
        settings = {
            "model": self.spec.to_json(),
            "inputs": [model.num_features for model in self.models],
            "outputs": self.num_outputs,
            "temperature": self.temperature,
            "noise": None if self.noise is None else self.noise._asdict(),
        }
        weights = {f"{i}/{k}": v for i, model in enumerate(self.models) for k, v in state_arrays(model).items()}
        structure = {f"vectors{i}": vectors for i, vectors in enumerate(self.vectors)}
        return settings, weights, structure | ({} if self.evidence is None else {"evidence": self.evidence})

    @classmethod
    def from_state(cls, settings: dict[str, Any], weights: Arrays, structure: Arrays) -> LPGNetPredictor:
        spec = ModelSpec.from_json(settings["model"])
        models = []
        for i, inputs in enumerate(settings["inputs"]):
            model = build(spec, int(inputs), int(settings["outputs"]), seed=0)
            mine = {k.partition("/")[2]: v for k, v in weights.items() if k.startswith(f"{i}/")}
            load_arrays(model, mine)
            models.append(model)
        vectors = [structure[f"vectors{i}"] for i in range(sum(k.startswith("vectors") for k in structure))]
        noise = None if settings.get("noise") is None else CountNoise(**settings["noise"])
        return cls(spec, models, vectors, structure.get("evidence"), float(settings["temperature"]), noise)


def row_logits(model: Any, x: FeatureMatrix) -> Logits:
    """float64 logits of a model that reads each row on its own."""
    return predict_logits(model, x, no_edges(x.shape[0]))


def log_softmax(logits: NDArray[Any]) -> Logits:
    """Log-probabilities of each row."""
    top = logits.max(axis=1, keepdims=True)
    return np.asarray(logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True)), np.float64)
