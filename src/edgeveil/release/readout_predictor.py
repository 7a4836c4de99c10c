"""Answers that add stored private statistics to a base predictor: fixed evidence per node, or a small MLP over both."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.assemble import build, load_arrays, state_arrays
from edgeveil.models.spec import ModelSpec
from edgeveil.release.lpgnet_predictor import CountNoise, log_softmax, row_logits
from edgeveil.release.predictors import PREDICTORS, Arrays, Logits, Predictor, predictor_from_state
from edgeveil.release.target import StoredCounts

__all__ = ["FORMS", "ReadoutPredictor", "StoredPredictor", "readout_inputs"]

FORMS = ("raw", "calibrated", "shares")
"""How logits and counts stand before the MLP: as they are; logits as log-probabilities; counts as logs and shares."""


def readout_inputs(form: str, logits: NDArray[Any], counts: NDArray[Any], temperature: float) -> NDArray[Any]:
    """One row per node; counts below zero are noise and become zero."""
    seen = np.maximum(counts, 0.0)
    if form == "raw":
        return np.concatenate([logits, seen], axis=1)
    if form == "calibrated":
        return np.concatenate([log_softmax(logits / temperature), seen], axis=1)
    if form == "shares":
        shares = seen / np.maximum(seen.sum(axis=1, keepdims=True), 1.0)
        return np.concatenate([logits, np.log1p(seen), shares], axis=1)
    raise UnknownNameError("form of read-out", form, FORMS)


@PREDICTORS.register("stored")
class StoredPredictor(Predictor):
    """The same stored numbers whatever is asked: part of a mixture, such as evidence read off noisy counts.

    `noise` is that of the counts; releases made before it was kept have None.
    """

    kind = "stored"
    rowwise = True
    stores_rows = True

    def __init__(self, values: NDArray[Any], noise: CountNoise | None = None) -> None:
        self.values, self.noise = np.asarray(values, np.float64), noise
        self.num_nodes, self.num_outputs = self.values.shape

    def logits(self, x: FeatureMatrix) -> Logits:
        _check_nodes(x, self.num_nodes)
        return self.values.copy()

    def induced(self, nodes: NDArray[np.int64]) -> StoredPredictor:
        return StoredPredictor(self.values[nodes], self.noise)

    def state(self) -> tuple[dict[str, Any], Arrays, Arrays]:
        settings = {} if self.noise is None else {"noise": self.noise._asdict()}
        return settings, {}, {"values": self.values}

    @classmethod
    def from_state(cls, settings: dict[str, Any], weights: Arrays, structure: Arrays) -> StoredPredictor:
        return cls(structure["values"], CountNoise(**settings["noise"]) if "noise" in settings else None)


@PREDICTORS.register("readout")
class ReadoutPredictor(Predictor):
    """An MLP over the base's logits and stored noisy counts, row by row; `noise` is that of the counts."""

    kind = "readout"
    stores_rows = True

    def __init__(
        self,
        base: Predictor,
        spec: ModelSpec,
        model: Any,
        counts: NDArray[Any],
        form: str,
        temperature: float,
        noise: CountNoise | None = None,
    ) -> None:
        self.noise, self.stores_counts = noise, noise is not None
        self.base, self.spec, self.model, self.counts = base, spec, model, np.asarray(counts)
        self.form, self.temperature = form, float(temperature)
        self.num_nodes, self.num_outputs = base.num_nodes, int(model.num_outputs)
        self.rowwise = base.rowwise

    def logits(self, x: FeatureMatrix) -> Logits:
        _check_nodes(x, self.num_nodes)
        rows = readout_inputs(self.form, self.base.logits(x), self.counts, self.temperature)
        return row_logits(self.model, FeatureMatrix.wrap(rows))

    @property
    def stored_graph(self) -> sp.csr_matrix | None:
        """The base's."""
        return self.base.stored_graph

    def stored_counts(self, x: FeatureMatrix) -> tuple[StoredCounts, ...]:
        """The counts with the base's classes as clusters; training nodes were counted by label, which mostly agrees."""
        below = self.base.stored_counts(x) if self.base.stores_counts else ()
        return below if self.noise is None else (*below, self.noise.on(self.counts, self.base.logits(x).argmax(axis=1)))

    def induced(self, nodes: NDArray[np.int64]) -> ReadoutPredictor:
        """The same nodes with the counts stored for the whole graph: those of a subgraph would cost epsilon again."""
        base = self.base.induced(nodes)
        counts = self.counts[nodes]
        return ReadoutPredictor(base, self.spec, self.model, counts, self.form, self.temperature, self.noise)

    def state(self) -> tuple[dict[str, Any], Arrays, Arrays]:
        own, arrays, places = self.base.state()
        settings = {
            "base": {"kind": self.base.kind, "settings": own},
            "model": self.spec.to_json(),
            "inputs": self.model.num_features,
            "outputs": self.num_outputs,
            "form": self.form,
            "temperature": self.temperature,
            "noise": None if self.noise is None else self.noise._asdict(),
        }
        weights = _marked("base", arrays) | _marked("own", state_arrays(self.model))
        return settings, weights, _marked("base", places) | {"counts": self.counts}

    @classmethod
    def from_state(cls, settings: dict[str, Any], weights: Arrays, structure: Arrays) -> ReadoutPredictor:
        part = settings["base"]
        base = predictor_from_state(
            part["kind"], part["settings"], _unmarked("base", weights), _unmarked("base", structure)
        )
        spec = ModelSpec.from_json(settings["model"])
        model = build(spec, int(settings["inputs"]), int(settings["outputs"]), seed=0)
        load_arrays(model, _unmarked("own", weights))
        noise = None if settings.get("noise") is None else CountNoise(**settings["noise"])
        return cls(base, spec, model, structure["counts"], settings["form"], settings["temperature"], noise)


def _check_nodes(x: FeatureMatrix, num_nodes: int) -> None:
    if x.shape[0] != num_nodes:
        raise InputError(
            f"this release stores noisy counts of {num_nodes} nodes, not {x.shape[0]}; another graph needs a new "
            "release with its own epsilon"
        )


def _marked(mark: str, arrays: Arrays) -> Arrays:
    return {f"{mark}/{name}": value for name, value in arrays.items()}


def _unmarked(mark: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(f"{mark}/"): value for name, value in arrays.items() if name.startswith(f"{mark}/")}
