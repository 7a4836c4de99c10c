"""A release: the only thing that leaves Alice's side. It predicts, and states what it promises about edges."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.metrics.utility import utility
from edgeveil.models.spec import ModelSpec
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.release.evaluation import Evaluation
from edgeveil.release.inputs import Inputs
from edgeveil.release.predictors import Predictor
from edgeveil.release.target import StoredCounts

__all__ = ["Release"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Release:
    """Query access to a trained model, with its guarantee.

    `matrix` holds the features in model space: scaled once when the release was made, never inside `predict`,
    because scaling there would cancel LinkTeller's factor 1 + delta. `evaluation` is the owner's own copy of the
    inference graph's labels and masks, and `seconds_train` the owner's clock over work on private edges; both stay in
    memory and are never saved. Only a release with `contains_private_graph` holds private edges, in its predictor.
    """

    defence: str
    guarantee: Guarantee
    predictor: Predictor
    matrix: FeatureMatrix
    params: Mapping[str, Any] = field(default_factory=dict)
    model: str = "gcn"
    layers: int = 2
    variant: str = "correct"
    setting: str = "transductive"
    dataset: str = "graph"
    is_twin: bool = False
    multilabel: bool = False
    node_ids: NDArray[Any] | None = None  # names of the nodes, if they have any but their numbers
    class_names: tuple[str, ...] | None = None
    inputs: Inputs | None = None  # from a raw table to model space
    scaling: str | None = None  # how `matrix` came from the raw features; None: made before it was recorded
    contains_private_graph: bool = False
    seconds_train: float | None = None
    notes: tuple[str, ...] = ()
    evaluation: Evaluation | None = None

    @property
    def num_nodes(self) -> int:
        return self.predictor.num_nodes

    @property
    def num_classes(self) -> int:
        return self.predictor.num_outputs

    @property
    def features(self) -> Any:
        """The stored model-space features as an array or CSR matrix."""
        return self.matrix.public()

    def predict(self, features: Any = None, nodes: Any = None, induced: bool = False) -> NDArray[np.float64]:
        """Logits, one row per node.

        Neither argument: all nodes. `features` alone: they replace the stored matrix. `features` with `nodes`: they
        replace those rows, and all rows are returned. `nodes` alone: only their rows are returned. `induced=True`:
        the answer of the model on the subgraph induced by `nodes`, one row for each of them (LinkTeller App. E5).
        """
        ids = None if nodes is None else self._check_nodes(nodes)
        if induced:
            return self._predict_induced(features, ids)
        if features is None:
            logits = self.predictor.logits(self.matrix)
            return logits if ids is None else logits[ids]
        rows = _check_rows(features, self.num_nodes if ids is None else len(ids), self.matrix.shape[1])
        x = FeatureMatrix.wrap(rows) if ids is None else self.matrix.with_rows(ids, _dense(rows))
        return self.predictor.logits(x)

    def _predict_induced(self, features: Any, ids: NDArray[np.int64] | None) -> NDArray[np.float64]:
        if ids is None:
            raise InputError("induced=True needs nodes: the subgraph to answer on")
        x = self.matrix.take(ids)
        if features is not None:
            x = FeatureMatrix.wrap(_check_rows(features, len(ids), self.matrix.shape[1]))
        return self.predictor.induced(ids).logits(x)

    def transform(self, table: Any) -> NDArray[np.float64]:
        """Model-space features of a raw table, one row per row, for `predict(features=)`.

        A path, a mapping of columns, a data frame or an Arrow table with the columns that the release was made from; or
        an array of their numbers.
        """
        if self.inputs is None:
            raise InputError(
                "this release does not say how raw features become its model's (its nodes perturb them, or it is older "
                "than that record); predict(features=) takes features in model space"
            )
        return self.inputs.apply(table)

    def influence(self, nodes: Any = None) -> sp.csr_matrix:
        """Exact LinkTeller influence among `nodes` (all by default): entry [i, j] is that of nodes[i] on nodes[j]."""
        ids = np.arange(self.num_nodes) if nodes is None else self._check_nodes(nodes)
        return self.predictor.influence(self.matrix, ids, ids)

    @property
    def offers_influence(self) -> bool:
        """Whether `influence` answers. Where it does not, what the model leaks is known from queries alone."""
        return self.predictor.offers_influence

    def derivative(self, features: Any, nodes: Any, move: Any, along: Any = None) -> sp.csr_matrix:
        """How far row nodes[i] moving along `move` moves node j's logits at the given `features`: entry [i, j].

        The norm of that derivative, or its product with the vector `along`.
        """
        x = FeatureMatrix.wrap(_check_rows(features, self.num_nodes, self.matrix.shape[1]))
        return self.predictor.influence(x, self._check_nodes(nodes), np.arange(self.num_nodes), move, along)

    @property
    def stored_graph(self) -> sp.csr_matrix | None:
        """The graph that the release keeps and answers with (row i lists whom node i hears); None if it keeps none."""
        return self.predictor.stored_graph

    @property
    def stores_rows(self) -> bool:
        """Whether it keeps numbers about each node that were read off the graph (noisy counts, evidence)."""
        return self.predictor.stores_rows

    @property
    def stores_counts(self) -> bool:
        """Whether it keeps noisy counts of neighbours, with a law that it knows."""
        return self.predictor.stores_counts

    @property
    def stored_counts(self) -> tuple[StoredCounts, ...]:
        """The noisy counts that the release keeps and answers with; empty if it keeps none."""
        return self.predictor.stored_counts(self.matrix)

    @property
    def mechanism(self) -> dict[str, Any]:
        """What is public about the defence: its name and parameters, epsilon among them."""
        return {"name": self.defence, "params": dict(self.params)}

    @property
    def architecture(self) -> dict[str, Any]:
        """What is public about one of our own models: name, layers, normalisation, skips, KProp; else empty."""
        spec = getattr(self.predictor, "spec", None)
        if not isinstance(spec, ModelSpec):
            return {}
        facts = {"name": spec.name, "layers": spec.layers, "norm": spec.norm, "bias": spec.bias}
        kind = spec.architecture
        facts |= {"propagation": kind.propagation(spec), "reads_itself": kind.reads_itself, "attends": kind.attends}
        return facts | {"skip": spec.has_skip, "kprop": spec.kprop}

    def utility(self, mask: str | NDArray[np.bool_] = "test", graph: Graph | None = None) -> dict[str, Any]:
        """Utility metrics on a mask ("train", "val", "test", "all" or boolean) of the inference graph.

        A loaded release carries no labels: pass the graph it answers for.
        """
        truth = self.evaluation if graph is None else Evaluation.of(graph)
        if truth is None:
            raise InputError("this release carries no labels; pass the graph: release.utility('test', graph=g)")
        chosen = truth.select(mask) if isinstance(mask, str) else np.asarray(mask)
        if truth.y.ndim == 1:
            chosen = chosen & (truth.y >= 0)
        if not chosen.any():
            raise InputError(f"mask {mask!r} selects no labelled node; choose another mask or split")
        return utility(self.predict(), truth.y, chosen, multilabel=self.multilabel)

    def save(self, path: str | Path) -> Path:
        """Write the release to a folder; see `edgeveil.release.storage` for the format."""
        from edgeveil.release.storage import save_release

        return save_release(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, modules: Any = None) -> Release:
        """Read a saved release; it predicts the same numbers.

        `modules` supplies own models that it names: a mapping of names to factories, one factory, or several.
        """
        from edgeveil.models.own_models import supplied
        from edgeveil.release.storage import load_release

        with supplied(modules):
            return load_release(Path(path))

    @cached_property
    def _places(self) -> dict[str, int]:
        names = range(self.num_nodes) if self.node_ids is None else self.node_ids
        return {str(node): at for at, node in enumerate(names)}

    def node_numbers(self, names: Any) -> NDArray[np.int64]:
        """Numbers of nodes given by their ids."""
        plain = isinstance(names, list) and all(type(name) is str for name in names)  # one long name must cost one name
        names = np.array(names, object) if plain else np.atleast_1d(np.asarray(names, str))
        unknown = next((name for name in names.ravel().tolist() if name not in self._places), None)
        if unknown is not None:
            hint = "its nodes have no names, ask by number" if self.node_ids is None else "check the id"
            raise InputError(f"unknown node {unknown[:80]!r}; {hint}")
        return np.array([self._places[name] for name in names.ravel().tolist()], np.int64).reshape(names.shape)

    def _check_nodes(self, nodes: Any) -> NDArray[np.int64]:
        ids = np.atleast_1d(np.asarray(nodes))
        ids = self.node_numbers(ids) if ids.dtype.kind == "U" else ids
        if ids.ndim != 1 or ids.size == 0 or ids.dtype.kind not in "iu":
            raise InputError(f"nodes must be a non-empty list of node numbers, got {nodes!r}")
        bad = ids[(ids < 0) | (ids >= self.num_nodes)]
        if len(bad):
            raise InputError(f"unknown node {bad[0]}; this release answers for nodes 0..{self.num_nodes - 1}")
        if len(np.unique(ids)) != len(ids):
            raise InputError("nodes are repeated; ask for each node once")
        return ids.astype(np.int64)

    def __repr__(self) -> str:
        twin = " (synthetic twin)" if self.is_twin else ""
        promise = self.guarantee
        claim = f"epsilon {promise.epsilon:g}" if promise.epsilon is not None else "no guarantee"
        if promise.status == "sound" and promise.epsilon is None:
            claim = f"epsilon {promise.claimed_epsilon:g} for {promise.unit}"
        return f"Release({self.defence}, {self.model} on {self.dataset}{twin}, {self.num_nodes:,} nodes, {claim})"

    def _repr_html_(self) -> str:
        return f"<p><code>{html.escape(repr(self))}</code></p>{self.guarantee._repr_html_()}"


def _check_rows(features: Any, rows: int, width: int) -> Any:
    if isinstance(features, FeatureMatrix):
        shape: tuple[int, ...] = features.shape
    else:
        features = features if sp.issparse(features) else np.atleast_2d(np.asarray(features))
        shape = features.shape
        values = features.data if sp.issparse(features) else features
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise InputError("features hold NaN, infinite or non-numeric values; a query must be finite numbers")
    if tuple(shape) != (rows, width):
        raise InputError(f"features must have shape [{rows}, {width}], got {list(shape)}")
    return features


def _dense(rows: Any) -> NDArray[np.float64]:
    if isinstance(rows, FeatureMatrix):
        rows = rows.toarray()
    return np.asarray(rows.todense() if sp.issparse(rows) else rows, dtype=np.float64)
