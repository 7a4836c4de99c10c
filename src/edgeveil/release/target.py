"""The wall: all that an attack may touch is a `Target` (questions, counted) and an `AttackerView` (what Bob knows)."""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import InputError, TargetError, UnknownNameError
from edgeveil.release.apart import Apart

__all__ = [
    "AnswerKind",
    "AttackerView",
    "CallableTarget",
    "LocalTarget",
    "PublicGraph",
    "StoredCounts",
    "Target",
    "check_nodes",
]

AnswerKind = Literal["logits", "probabilities", "labels"]
FEW_HOPS = 4  # further away almost every node is heard, and a pass answers one question
KINDS: tuple[AnswerKind, ...] = ("logits", "probabilities", "labels")
Int = NDArray[np.int64]
Influence = Callable[[Int], sp.csr_matrix]
Derivative = Callable[..., sp.csr_matrix]


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredCounts:
    """One private query that a release keeps: noisy `counts` [n, K] of every node's neighbours in every cluster.

    `clusters` [n] are those that were counted. Public: the noise's `law` (discrete or continuous Laplace, gaussian),
    its `scale` (0: none), and whether counts below zero were `clipped`. With `evidence` the release keeps what a
    Bayesian reading made of the counts: log-likelihoods of the classes, up to a constant per node and one factor.
    """

    counts: NDArray[np.float64]
    clusters: Int
    law: str
    scale: float
    clipped: bool
    evidence: bool = False


class Target(ABC):
    """A model behind an interface. `queries` counts questions, `rows` the prediction rows that came back."""

    num_nodes: int
    answer_kind: AnswerKind = "logits"
    influence: Influence | None = None  # only a model at hand (white box) offers it
    influence_missing: bool = False  # a model at hand whose derivative nobody has written
    derivative: Derivative | None = None  # likewise: (features, nodes, move, along) -> CSR [nodes, num_nodes]
    stored_graph: Callable[[], Any] | None = None  # likewise: the graph it answers with, CSR
    stored_counts: Callable[[], tuple[StoredCounts, ...]] | None = None  # likewise: noisy counts it answers with
    apart: Apart | None = None  # likewise: several questions in one pass
    stores_rows: bool = False  # likewise: whether it keeps numbers about each node's neighbours
    architecture: Mapping[str, Any] | None = None  # what its owner says about the model: name, layers, norm, skip ...
    mechanism: Mapping[str, Any] | None = None  # likewise: the defence's name and params; its law is public
    num_features: int | None = None
    num_outputs: int | None = None
    features: Any = None  # model-space features of all nodes, where the target's owner shares them

    def __init__(self) -> None:
        self.queries = 0
        self.rows = 0
        self._width: int | None = None

    def query(self, features: Any = None, nodes: Any = None, induced: bool = False) -> NDArray[Any]:
        """One question, with the meaning of `Release.predict`; labels come back as integers [rows].

        A failed or nonsensical answer raises `TargetError` and is not counted.
        """
        ids = None if nodes is None else check_nodes(nodes, self.num_nodes)
        if induced and ids is None:
            raise InputError("induced=True needs nodes: the subgraph to answer on")
        expected = len(ids) if ids is not None and (induced or features is None) else self.num_nodes
        answer = self._checked(self._answer(features, ids, induced), expected)
        self.queries += 1
        self.rows += len(answer)
        return answer

    @abstractmethod
    def _answer(self, features: Any, nodes: Int | None, induced: bool) -> Any:
        """The raw answer to one valid question."""

    def _checked(self, answer: Any, expected: int) -> NDArray[Any]:
        """Turn the raw answer into an array, or say exactly why it is no prediction."""
        at = f"query {self.queries + 1}"
        try:
            out = as_array(answer)
        except (ValueError, TypeError) as error:
            raise TargetError(f"{at}: the target answered {type(answer).__name__}, not an array") from error
        if self.answer_kind == "labels" and out.ndim == 1 and out.dtype.kind in "iu":
            if len(out) != expected:
                raise TargetError(f"{at}: expected {expected} labels, got {len(out)}")
            return out.astype(np.int64)
        if out.dtype.kind not in "fiu" or self.answer_kind == "labels":
            raise TargetError(f"{at}: expected {self.answer_kind}, got an array of {out.dtype} [{out.ndim}-D]")
        if out.ndim != 2 or len(out) != expected or (self._width is not None and out.shape[1] != self._width):
            want = f"[{expected}, {self._width or 'classes'}]"
            raise TargetError(f"{at}: expected an answer of shape {want}, got {list(out.shape)}")
        if not np.isfinite(out).all():
            row = int(np.flatnonzero(~np.isfinite(out).all(axis=1))[0])
            raise TargetError(f"{at}: the answer for row {row} is NaN or infinite; nothing can be learned from it")
        self._width = out.shape[1]
        return out.astype(np.float64)

    @staticmethod
    def local(
        release: Any, answer: AnswerKind = "logits", decimals: int | None = None, dtype: str = "float64"
    ) -> LocalTarget:
        """A release in this process, answering as coarsely as asked (see `LocalTarget`)."""
        return LocalTarget(release, answer, decimals, dtype)

    @staticmethod
    def from_callable(
        fn: Callable[..., Any],
        num_nodes: int | None = None,
        *,
        features: Any = None,
        answer: AnswerKind = "logits",
        timeout: float | None = None,
    ) -> CallableTarget:
        """A user's own model (see `CallableTarget`)."""
        return CallableTarget(fn, num_nodes, features=features, answer=answer, timeout=timeout)


class LocalTarget(Target):
    """A release in this process. `decimals` rounds what is answered, `dtype="float32"` computes in single precision.

    Exact derivatives, the stored graph and stored counts are offered only for full answers: a coarser target stands for
    a real black box.
    """

    def __init__(
        self, release: Any, answer: AnswerKind = "logits", decimals: int | None = None, dtype: str = "float64"
    ) -> None:
        super().__init__()
        if answer not in KINDS:
            raise UnknownNameError("kind of answer", str(answer), KINDS)
        if dtype not in ("float64", "float32"):
            raise UnknownNameError("dtype", dtype, ("float64", "float32"))
        self._release = release if dtype == "float64" else _single(release)
        self.num_nodes = release.num_nodes
        self.answer_kind = answer
        self._decimals = decimals
        self._dtype = dtype
        self._multilabel = bool(getattr(release, "multilabel", False))
        self.features = getattr(release, "matrix", None)
        self.num_features = None if self.features is None else self.features.shape[1]
        self.num_outputs = getattr(release, "num_classes", None)
        self.architecture = getattr(release, "architecture", None)
        self.mechanism = getattr(release, "mechanism", None)
        hops = getattr(getattr(release, "predictor", None), "hops", None)
        if hops is not None and hops <= FEW_HOPS:
            self.apart = Apart(release.predictor.adjacency, hops, self._ask_apart)
        if answer == "logits" and decimals is None and dtype == "float64":
            if getattr(release, "offers_influence", True):
                self.influence = getattr(release, "influence", None)
                self.derivative = getattr(release, "derivative", None)
            self.influence_missing = self.influence is None and hasattr(release, "influence")
            if getattr(release, "stored_graph", None) is not None:
                self.stored_graph = lambda: release.stored_graph
            self.stores_rows = getattr(release, "stores_rows", False)
            if getattr(release, "stores_counts", False):
                self.stored_counts = lambda: release.stored_counts

    def _ask_apart(self, rows: Any, nodes: Int) -> NDArray[Any]:
        x = self._release.matrix.with_rows(nodes, rows, apart=True)
        answer = self._checked(self._shown(self._release.predictor.logits(x)), self.num_nodes)
        self.queries += len(nodes)
        self.rows += len(nodes) * len(answer)
        return answer

    def _answer(self, features: Any, nodes: Int | None, induced: bool) -> Any:
        return self._shown(np.asarray(self._release.predict(features=features, nodes=nodes, induced=induced)))

    def _shown(self, logits: NDArray[Any]) -> Any:
        if self.answer_kind == "labels":
            return logits.argmax(axis=1).astype(np.int64)
        out = logits if self.answer_kind == "logits" else _probabilities(logits, self._multilabel)
        out = out.astype(self._dtype)
        return out if self._decimals is None else np.round(out, self._decimals)


def as_array(answer: Any) -> NDArray[Any]:
    """An answer in main memory: a torch tensor may carry gradients, live on a device or be of half precision."""
    if hasattr(answer, "detach") and hasattr(answer, "cpu"):
        answer = answer.detach().cpu()
        answer = answer.double() if answer.is_floating_point() else answer
        return np.asarray(answer.numpy())
    return np.asarray(answer)


def _single(release: Any) -> Any:
    """The release with a predictor that computes in single precision."""
    predictor = copy.copy(release.predictor)
    predictor.precision = "float32"
    return replace(release, predictor=predictor)


def _probabilities(logits: NDArray[Any], multilabel: bool) -> NDArray[Any]:
    if multilabel:
        logistic: NDArray[Any] = 1 / (1 + np.exp(-logits))
        return logistic
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    out: NDArray[Any] = exp / exp.sum(axis=1, keepdims=True)
    return out


class CallableTarget(Target):
    """A Python function as the model.

    With base `features` [n, d] the function takes one full feature matrix and returns one row per node. Without, it
    has the signature of `Release.predict`: ``fn(features=None, nodes=None, induced=False)``. `timeout` (seconds)
    turns a silent function into a `TargetError`; its thread is left behind.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        num_nodes: int | None = None,
        *,
        features: Any = None,
        answer: AnswerKind = "logits",
        timeout: float | None = None,
    ) -> None:
        super().__init__()
        if answer not in KINDS:
            raise UnknownNameError("kind of answer", str(answer), KINDS)
        if num_nodes is None and features is None:
            raise InputError("a callable target needs num_nodes, or the base features of all nodes")
        self.num_nodes = features.shape[0] if num_nodes is None else num_nodes
        self.answer_kind = answer
        self._fn = fn
        self.features = features
        self.num_features = None if features is None else features.shape[1]
        self._timeout = timeout

    def _answer(self, features: Any, nodes: Int | None, induced: bool) -> Any:
        if self.features is None:
            return self._call(features=features, nodes=nodes, induced=induced)
        if induced:
            raise TargetError("this target answers for the whole graph only; it cannot answer on an induced subgraph")
        if features is None:
            out = self._call(self.features)
            return out if nodes is None else as_array(out)[nodes]
        return self._call(features if nodes is None else replace_rows(self.features, nodes, features))

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        if self._timeout is None:
            return self._guarded(*args, **kwargs)
        box: list[Any] = []

        def work() -> None:
            try:
                box.append((True, self._fn(*args, **kwargs)))
            except Exception as error:  # handed to the caller's thread
                box.append((False, error))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(self._timeout)
        if not box:
            raise TargetError(
                f"query {self.queries + 1}: no answer within {self._timeout:g} s. Record the target "
                "(RecordedTarget) and run the attack again: answered queries are not asked twice"
            )
        done, value = box[0]
        if done:
            return value
        return self._guarded_raise(value)

    def _guarded(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._fn(*args, **kwargs)
        except Exception as error:
            return self._guarded_raise(error)

    def _guarded_raise(self, error: Exception) -> Any:
        if isinstance(error, (TargetError, InputError)):
            raise error
        raise TargetError(
            f"query {self.queries + 1}: the target failed with {type(error).__name__}: {error}"
        ) from error


def replace_rows(base: Any, nodes: Int, rows: Any) -> Any:
    """A copy of a feature matrix (array or CSR) with some rows replaced."""
    if not sp.issparse(base):
        out = np.array(base, dtype=np.float64)
        out[nodes] = rows
        return out
    keep = np.ones(base.shape[0])
    keep[nodes] = 0
    place = sp.csr_matrix((np.ones(len(nodes)), (nodes, np.arange(len(nodes)))), shape=(base.shape[0], len(nodes)))
    return (sp.diags(keep) @ base + place @ sp.csr_matrix(rows)).tocsr()


def check_nodes(nodes: Any, num_nodes: int, what: str = "nodes") -> Int:
    """Distinct known node numbers (or a boolean mask) as int64, in the given order."""
    ids = np.atleast_1d(np.asarray(nodes))
    if ids.dtype == np.bool_ and ids.shape == (num_nodes,):
        ids = np.flatnonzero(ids)
    if ids.ndim != 1 or not ids.size or ids.dtype.kind not in "iu":
        raise InputError(f"{what} must be a non-empty list of node numbers, got {nodes!r}")
    bad = ids[(ids < 0) | (ids >= num_nodes)]
    if len(bad):
        raise InputError(f"unknown node {bad[0]} in {what}; the target answers for nodes 0..{num_nodes - 1}")
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"node {values[counts > 1][0]} is repeated in {what}; name each node once")
    return ids.astype(np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicGraph:
    """A graph that Bob has from elsewhere, edges and all, as plain arrays: his shadow graph.

    `edges` [2, E] name each edge once; `features` is an array or CSR matrix with one row per node, `labels` one number
    per node (-1: unknown). It must not be the graph under attack.
    """

    num_nodes: int
    edges: Int
    features: Any = None
    labels: Int | None = None

    def __post_init__(self) -> None:
        edges = np.asarray(self.edges)
        if edges.ndim != 2 or edges.shape[0] != 2 or (edges.size and edges.dtype.kind not in "iu"):
            raise InputError(f"edges of a public graph must be an integer array [2, E], got shape {list(edges.shape)}")
        if edges.size and not (edges.min() >= 0 and edges.max() < self.num_nodes):
            raise InputError(f"edges of a public graph name nodes outside 0..{self.num_nodes - 1}")
        for what, rows in (("features", self.features), ("labels", self.labels)):
            if rows is not None and rows.shape[0] != self.num_nodes:
                raise InputError(f"{what} of a public graph have {rows.shape[0]} rows for {self.num_nodes} nodes")

    @classmethod
    def of(cls, graph: Any) -> PublicGraph:
        """From anything with `num_nodes`, `edge_index`, `x` and `y`, such as `ev.Graph`."""
        if isinstance(graph, cls):
            return graph
        if not all(hasattr(graph, name) for name in ("num_nodes", "edge_index", "x", "y")):
            raise InputError(f"a shadow graph is an ev.Graph or a PublicGraph, got {type(graph).__name__}")
        x = graph.x.public() if hasattr(graph.x, "public") else graph.x
        return cls(num_nodes=graph.num_nodes, edges=np.asarray(graph.edge_index), features=x, labels=graph.y)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttackerView:
    """What Bob knows: his nodes of interest (in his order), their model-space features, and perhaps more.

    `features` has one row per node of `nodes` (array, CSR, or anything with ``rows(positions)``). `pairs` [2, P]
    names the pairs he asks about (default: all among `nodes`). `known_edges` [2, K] and `known_non_edges` he has from
    elsewhere, as he has the `shadow` graph, which is another one. `density` is his belief, `controlled_features` the
    columns he can alter (default: all).
    """

    nodes: Int
    features: Any = None
    pairs: Int | None = None
    known_edges: Int | None = None
    known_non_edges: Int | None = None
    shadow: PublicGraph | None = None
    density: float | None = None
    controlled_features: Int | None = None
    whole_graph: bool = False

    def rows(self, positions: Any) -> NDArray[np.float64]:
        """Dense feature rows of the nodes at these positions."""
        if self.features is None:
            raise InputError("this attack needs the nodes' features, and the attacker's view has none")
        at = np.atleast_1d(np.asarray(positions, np.int64))
        if hasattr(self.features, "rows"):
            return np.asarray(self.features.rows(at), np.float64)
        part = self.features[at]
        return np.asarray(part.todense() if sp.issparse(part) else part, np.float64)

    def pair_positions(self) -> tuple[Int, Int]:
        """Positions in `nodes` of every pair to score: the given pairs, else all i < j in order."""
        if self.pairs is None:
            i, j = np.triu_indices(len(self.nodes), 1)
            return i.astype(np.int64), j.astype(np.int64)
        order = np.argsort(self.nodes)
        at = order[np.searchsorted(self.nodes[order], self.pairs)]
        return at[0], at[1]
