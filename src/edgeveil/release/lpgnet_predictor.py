"""Answers of LPGNet: stacked MLPs over stored noisy degree vectors (LPGNet Alg. 3).

The private graph is not here and cannot be asked again: vectors that were paid for once are part of the release, and
every later answer is post-processing. Only the last logits leave the predictor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.assemble import build, load_arrays, predict_logits, state_arrays
from edgeveil.models.spec import ModelSpec
from edgeveil.release.predictors import PREDICTORS, Arrays, Logits, Predictor, no_edges

__all__ = ["LPGNetPredictor", "log_softmax", "row_logits", "stack_features"]


def stack_features(before: NDArray[Any] | None, logits: NDArray[Any], vectors: NDArray[Any]) -> NDArray[Any]:
    """F_1 = L_0 ^ X_0 and F_{i+1} = F_i ^ (L_i ^ X_i): raw logits and raw counts, nothing scaled."""
    parts = [logits, vectors] if before is None else [before, logits, vectors]
    return np.concatenate(parts, axis=1)


@PREDICTORS.register("lpgnet")
class LPGNetPredictor(Predictor):
    """`models[0]` reads features, `models[i]` reads logits and vectors of all earlier layers.

    With `evidence` (the Bayesian read-out) there is one model, and the answer is its log-probabilities at
    `temperature` plus the stored evidence of the counts.
    """

    kind = "lpgnet"
    rowwise = True

    def __init__(
        self,
        spec: ModelSpec,
        models: list[Any],
        vectors: list[NDArray[Any]],
        evidence: NDArray[np.float64] | None = None,
        temperature: float = 1.0,
    ) -> None:
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

    def induced(self, nodes: NDArray[np.int64]) -> LPGNetPredictor:
        """The same nodes with the vectors stored for the whole graph: those of a subgraph would cost epsilon again."""
        evidence = None if self.evidence is None else self.evidence[nodes]
        return LPGNetPredictor(self.spec, self.models, [v[nodes] for v in self.vectors], evidence, self.temperature)

    def state(self) -> tuple[dict[str, Any], Arrays, Arrays]:
        settings = {
            "model": self.spec.to_json(),
            "inputs": [model.num_features for model in self.models],
            "outputs": self.num_outputs,
            "temperature": self.temperature,
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
        return cls(spec, models, vectors, structure.get("evidence"), float(settings["temperature"]))


def row_logits(model: Any, x: FeatureMatrix) -> Logits:
    """float64 logits of a model that reads each row on its own."""
    return predict_logits(model, x, no_edges(x.shape[0]))


def log_softmax(logits: NDArray[Any]) -> Logits:
    """Log-probabilities of each row."""
    top = logits.max(axis=1, keepdims=True)
    return np.asarray(logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True)), np.float64)
