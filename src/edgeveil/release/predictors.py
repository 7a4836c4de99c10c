"""What answers a query inside a release: a trained model together with the structure it may look at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import InputError, StorageError, UnknownNameError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.assemble import build, load_arrays, predict_logits, state_arrays
from edgeveil.models.module import ModuleModel
from edgeveil.models.module_source import Source
from edgeveil.models.spec import ModelSpec
from edgeveil.models.structure import Structure
from edgeveil.registry import Registry
from edgeveil.release.target import StoredCounts

__all__ = ["PREDICTORS", "GraphPredictor", "Predictor", "TabularPredictor", "predictor_from_state"]

Arrays = dict[str, NDArray[Any]]
Logits = NDArray[np.float64]


class Predictor(ABC):
    """Logits for features in model space. Everything is computed in float64, whatever the training used.

    `precision` may be set to "float32" on a copy, to study an interface that computes in single precision. `rowwise`:
    the answer about a node depends on that node's own features alone, whatever is asked; only who declares it is taken
    for blind to LinkTeller. `kind` is the registered name, which a saved release keeps.
    """

    kind: ClassVar[str]
    rowwise: bool = False
    precision: str = "float64"
    num_nodes: int
    num_outputs: int

    @abstractmethod
    def logits(self, x: FeatureMatrix) -> Logits:
        """One row per node."""

    @abstractmethod
    def induced(self, nodes: NDArray[np.int64]) -> Predictor:
        """The same model on the subgraph induced by `nodes`."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], Arrays, Arrays]:
        """Plain settings, weights, and structure (perturbed graph, stored statistics): all that a file must keep."""

    @classmethod
    @abstractmethod
    def from_state(cls, settings: dict[str, Any], weights: Arrays, structure: Arrays) -> Predictor:
        """Inverse of `state`."""

    hops: int | None = None  # how far away a node can be whose features an answer depends on; None: unknown
    stores_counts: bool = False
    stores_rows: bool = False  # numbers about each node that were read off the graph: counts, or what was made of them

    @property
    def stored_graph(self) -> sp.csr_matrix | None:
        """The graph it answers with, with its weights (row i lists whom node i hears); None if it keeps none."""
        return getattr(self, "adjacency", None)

    def stored_counts(self, x: FeatureMatrix) -> tuple[StoredCounts, ...]:
        """The noisy counts it answers with, each with its law; none by default."""
        del x
        return ()

    def influence(
        self,
        x: FeatureMatrix,
        nodes: NDArray[np.int64],
        targets: NDArray[np.int64],
        move: Any = None,
        along: Any = None,
    ) -> sp.csr_matrix:
        """Exact influence of `nodes` on `targets`. A predictor that mixes rows computes it or does not offer it.

        `move` and `along` are those of `edgeveil.models.influence.influence`.
        """
        if not self.rowwise:
            raise InputError(
                f"the predictor {self.kind!r} offers no exact influence, so what it leaks is unknown from inside; "
                "ask it by queries (mode='query')"
            )
        return sp.csr_matrix((len(nodes), len(targets)))

    @property
    def offers_influence(self) -> bool:
        """Whether `influence` answers: it is overridden, or zero because rows are not mixed."""
        return self.rowwise or type(self).influence is not Predictor.influence


PREDICTORS: Registry[Predictor] = Registry(
    "predictor", "edgeveil.release", "edgeveil.predictors", "edgeveil.defences"
)  # a defence's own package may bring its predictor along


def predictor_from_state(kind: str, settings: dict[str, Any], weights: Arrays, structure: Arrays) -> Predictor:
    """Rebuild the predictor that a manifest names."""
    try:
        found = PREDICTORS.get(kind)
    except UnknownNameError as error:
        raise StorageError(
            f"{error}. This release answers by a predictor that comes from elsewhere: install its package, or name its "
            "file (--plugin FILE.py, ev.load_plugin)"
        ) from error
    try:
        return found.from_state(settings, weights, structure)
    except (KeyError, TypeError, RuntimeError) as error:
        raise StorageError(f"the stored {kind} model is incomplete or damaged: {error}") from error


@PREDICTORS.register("graph")
class GraphPredictor(Predictor):
    """A GNN and the adjacency it aggregates over (row i lists whom node i hears, with weights where they differ)."""

    kind = "graph"

    def __init__(self, spec: ModelSpec, model: Any, adjacency: sp.csr_matrix) -> None:
        self.spec = spec
        self.model = model
        self.adjacency = adjacency
        self.num_nodes = adjacency.shape[0]
        self.num_outputs = model.num_outputs
        self.hops = spec.layers + spec.kprop if spec.architecture.layered else None

    @cached_property
    def _structure(self) -> Structure:
        return Structure(self.adjacency)

    def logits(self, x: FeatureMatrix) -> Logits:
        return predict_logits(self.model, x, self._structure, dtype=self.precision)

    def induced(self, nodes: NDArray[np.int64]) -> GraphPredictor:
        return GraphPredictor(self.spec, self.model, self.adjacency[nodes][:, nodes].tocsr())

    def influence(
        self,
        x: FeatureMatrix,
        nodes: NDArray[np.int64],
        targets: NDArray[np.int64],
        move: Any = None,
        along: Any = None,
    ) -> sp.csr_matrix:
        from edgeveil.models.influence import influence

        return influence(self.model, x, self._structure, nodes, targets, move=move, along=along)

    @property
    def offers_influence(self) -> bool:
        """Not for layers whose derivative is not known here."""
        from edgeveil.models.influence import has_influence

        return has_influence(self.model)

    def state(self) -> tuple[dict[str, Any], Arrays, Arrays]:
        settings = {"model": self.spec.to_json(), "inputs": self.model.num_features, "outputs": self.num_outputs}
        if isinstance(self.model, ModuleModel):
            settings["module"] = self.model.source.to_json()
        structure = {"indptr": self.adjacency.indptr, "indices": self.adjacency.indices}
        if (self.adjacency.data != 1).any():
            structure["weights"] = self.adjacency.data
        return settings, state_arrays(self.model), structure

    @classmethod
    def from_state(cls, settings: dict[str, Any], weights: Arrays, structure: Arrays) -> GraphPredictor:
        spec, model = _rebuild(settings, weights)
        n = len(structure["indptr"]) - 1
        weights_of = structure.get("weights", np.ones(len(structure["indices"]), np.float32))
        return cls(spec, model, sp.csr_matrix((weights_of, structure["indices"], structure["indptr"]), shape=(n, n)))


@PREDICTORS.register("tabular")
class TabularPredictor(Predictor):
    """A model of a node's own features: it never sees an edge, so answers about one node reveal nothing of others."""

    kind = "tabular"
    rowwise = True

    def __init__(self, spec: ModelSpec, model: Any, num_nodes: int) -> None:
        self.spec = spec
        self.model = model
        self.num_nodes = num_nodes
        self.num_outputs = model.num_outputs

    def logits(self, x: FeatureMatrix) -> Logits:
        return predict_logits(self.model, x, no_edges(self.num_nodes))

    def induced(self, nodes: NDArray[np.int64]) -> TabularPredictor:
        return TabularPredictor(self.spec, self.model, len(nodes))

    def state(self) -> tuple[dict[str, Any], Arrays, Arrays]:
        settings = {"model": self.spec.to_json(), "inputs": self.model.num_features, "outputs": self.num_outputs}
        return settings | {"num_nodes": self.num_nodes}, state_arrays(self.model), {}

    @classmethod
    def from_state(cls, settings: dict[str, Any], weights: Arrays, structure: Arrays) -> TabularPredictor:
        spec, model = _rebuild(settings, weights)
        return cls(spec, model, int(settings["num_nodes"]))


def no_edges(num_nodes: int) -> Structure:
    """The structure of a graph without edges, for models that never look at one."""
    return Structure(sp.csr_matrix((num_nodes, num_nodes), dtype=np.float32))


def _rebuild(settings: dict[str, Any], weights: Arrays) -> tuple[ModelSpec, Any]:
    spec = ModelSpec.from_json(settings["model"])
    model = build(spec, int(settings["inputs"]), int(settings["outputs"]), seed=0)
    if isinstance(model, ModuleModel):
        Source.from_json(settings["module"]).check(model.source)
    load_arrays(model, weights)
    return spec, model.eval()
