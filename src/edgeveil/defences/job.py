"""What a defence is asked to do: train on this graph, answer for that one, with these settings and this seed."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.catalog import edges_apart
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.graph.scaling import Scaling
from edgeveil.models.assemble import with_reach
from edgeveil.models.settings import TrainSpec
from edgeveil.models.spec import ModelSpec
from edgeveil.privacy.guarantee import SECURE, SEEDED
from edgeveil.seeds import derive

__all__ = ["SETTINGS", "Job", "Setting", "make_job"]

Setting = Literal["transductive", "inductive", "inductive-different", "inductive-evolving"]
SETTINGS: tuple[Setting, ...] = ("transductive", "inductive", "inductive-different", "inductive-evolving")
SEPARATE: tuple[Setting, ...] = ("inductive", "inductive-different")
BOTH_GRAPHS = "both graphs"
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """`graph` trains, `inference` is answered for; they are the same object in the transductive setting.

    inductive: two graphs that may share edges, each asked on its own, so epsilon is the sum over both.
    inductive-different: two graphs that share no edge, as their owner asserts. inductive-evolving: both have the same
    nodes and the training edges are a subset of the inference edges, as their owner asserts.
    """

    graph: Graph
    inference: Graph
    setting: Setting
    model: ModelSpec
    train: TrainSpec
    scaling: str = "none"
    fit_scaling_on: Literal["training nodes", "all nodes"] = "training nodes"
    seed: int | None = None
    progress: Callable[..., None] | None = None

    @property
    def separate(self) -> bool:
        """Two graphs, each asked on its own."""
        return self.setting in SEPARATE

    @property
    def times(self) -> int:
        """How often one edge may pay the epsilon of one graph: twice unless nobody can be in both graphs."""
        return 2 if self.setting == "inductive" else 1

    def edge_set(self, graph: str) -> str:
        """Which edges pay for a question to the graph of that name: they have a bill of their own only if asserted."""
        return graph if self.setting == "inductive-different" else BOTH_GRAPHS

    @property
    def randomness(self) -> str:
        """How the noise of this job is drawn, in the words of the guarantee."""
        return SECURE if self.seed is None else SEEDED

    def check_public_nodes(self) -> None:
        """Raise unless the nodes of both graphs are known without their edges."""
        for graph in (self.graph, self.inference):
            graph.check_public_nodes()

    def noise_seed(self, *path: str | int) -> int | None:
        """Seed of one named noise stream; None (operating-system entropy) for a real release."""
        return None if self.seed is None else derive(self.seed, "noise", *path)

    def model_seed(self, *path: str | int) -> int:
        """Seed of weights and dropout."""
        return secrets.randbits(63) if self.seed is None else derive(self.seed, "model", *path)

    @cached_property
    def train_mask(self) -> Mask:
        """Labelled training nodes: the train mask, or every node of a graph without masks."""
        masks = self.graph.masks
        mask = np.ones(self.graph.num_nodes, dtype=bool) if masks is None else masks.train
        mask = mask & _labelled(self.graph)
        if not mask.any():
            raise InputError("no labelled training node: give the graph labels and a train mask that selects some")
        return mask

    @cached_property
    def val_mask(self) -> Mask | None:
        """Labelled validation nodes, or None when there are none."""
        masks = self.graph.masks
        mask = None if masks is None else masks.val & _labelled(self.graph)
        return mask if mask is not None and mask.any() else None

    @property
    def train_spec(self) -> TrainSpec:
        """Training settings that fit the masks: without validation nodes nothing can be judged on them."""
        if self.val_mask is None and self.train.needs_validation:
            return self.train.without_validation()
        return self.train

    @cached_property
    def scaler(self) -> Scaling:
        """The scaling in use, never "auto"; learnt from all nodes only where a paper did so."""
        everybody = self.fit_scaling_on == "all nodes" and self.setting != "inductive-evolving"
        return Scaling.fit(self.scaling, self.graph.x, rows=None if everybody else self.train_mask)

    @cached_property
    def train_features(self) -> FeatureMatrix:
        """Training features in model space; the scaler is fitted here and nowhere else."""
        return self.scaler.apply(self.graph.x)

    @cached_property
    def inference_features(self) -> FeatureMatrix:
        """Inference features in model space, scaled with the training graph's statistics."""
        return self.train_features if self.inference.x is self.graph.x else self.scaler.apply(self.inference.x)

    @property
    def val_nodes(self) -> Mask:
        """Nodes known at validation time in the evolving setting: training and validation nodes."""
        masks = self.inference.masks
        return self.train_mask if masks is None else masks.train | masks.val


def _labelled(graph: Graph) -> Mask:
    y = graph.y
    if y is None:
        raise InputError(f"{graph.name} has no labels, and a model cannot be trained without them")
    return np.ones(len(y), dtype=bool) if y.ndim == 2 else y >= 0


def cut(graph: Graph, nodes: Mask) -> Graph:
    """Keep only the edges among `nodes`; all nodes stay, so ids do not change."""
    u, v = graph.edge_index
    keep = nodes[u] & nodes[v]
    return graph.with_edge_ranks(graph.edge_ranks[keep])


def make_job(
    graph: Graph,
    inference: Graph | None,
    setting: str | None,
    *,
    model: ModelSpec,
    train: TrainSpec,
    scaling: str,
    seed: int | None,
    progress: Callable[..., None] | None = None,
    fit_scaling_on: Literal["training nodes", "all nodes"] = "training nodes",
) -> Job:
    """Work out the setting and check that the two graphs fit it and each other."""
    for part in (graph, inference):
        if part is not None and part.x is None:
            raise InputError(f"{part.name} has no features, and every model here needs them")
    chosen = _choose_setting(graph, inference, setting)
    if chosen == "transductive":
        inference = graph
    elif chosen == "inductive-evolving":
        graph, inference = _evolving(graph, inference)
    assert inference is not None
    if inference.num_features != graph.num_features:
        raise InputError(
            f"training features have {graph.num_features} columns, inference features {inference.num_features}; "
            "both graphs need the same feature columns"
        )
    if graph.y is not None:
        model = with_reach(model, graph.num_features, graph.num_classes)
    return Job(
        graph=graph, inference=inference, setting=chosen, model=model, train=train, scaling=scaling, seed=seed,
        progress=progress, fit_scaling_on=fit_scaling_on,
    )  # fmt: skip


def _choose_setting(graph: Graph, inference: Graph | None, setting: str | None) -> Setting:
    """The setting that was asserted, or the one that claims nothing about the two graphs' edges.

    It goes into the manifest, so it must never depend on private edges. Only the owner, or the catalogue for its own
    datasets, can assert that two graphs share no edge or that one contains the other.
    """
    if setting is None:
        if inference is None:
            return "transductive"
        return "inductive-different" if edges_apart(graph.origin, inference.origin) else "inductive"
    wanted = setting.replace("_", "-").lower()
    known = next((known for known in SETTINGS if known == wanted), None)
    if known is None:
        raise InputError(f"unknown setting {setting!r}; use one of {', '.join(SETTINGS)}")
    if known in SEPARATE and inference is None:
        raise InputError(f"{known} needs an inference_graph: the other graph to answer for")
    if known == "transductive" and inference is not None:
        raise InputError("transductive means one graph: drop inference_graph or name another setting")
    if known == "inductive-different" and inference is not None:
        _check_different(graph, inference)
    return known


def _check_different(graph: Graph, inference: Graph) -> None:
    """Tell the owner when the graphs contradict the assertion: the same nodes, with edges among them in both."""
    place = _same_nodes(graph, inference)
    u, v = place[graph.edge_index]
    inside = (u >= 0) & (v >= 0)
    shared = int(inference.has_edges(u[inside], v[inside]).sum())
    if shared:
        raise InputError(
            f"the training and the inference graph share nodes and {shared} edges, and inductive-different would count "
            "such an edge once where it pays twice; for one graph drop inference_graph, for a graph that grows use "
            "inductive-evolving, or name no setting: epsilon is then the sum over both graphs"
        )


def _same_nodes(graph: Graph, inference: Graph) -> NDArray[np.int64]:
    """Where each node stands in the other graph, by its name or else by its row and telling features; -1 if nowhere."""
    n = min(graph.num_nodes, inference.num_nodes)
    if graph.node_ids is not None and inference.node_ids is not None:
        place = {str(node): at for at, node in enumerate(inference.node_ids.tolist())}
        return np.array([place.get(str(node), -1) for node in graph.node_ids.tolist()], np.int64)
    mine, out = graph.x[:n], np.full(graph.num_nodes, -1, np.int64)
    if inference is graph or (_same_rows(mine, inference.x[:n]) and not _same_rows(mine[1:], mine[:-1])):
        out[:n] = np.arange(n)
    return out


def _same_rows(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if sp.issparse(a) != sp.issparse(b) or a.shape != b.shape:
        return False
    return (a != b).nnz == 0 if sp.issparse(a) else bool(np.array_equal(a, b))


def _evolving(graph: Graph, inference: Graph | None) -> tuple[Graph, Graph]:
    if inference is None:
        if graph.masks is None:
            raise InputError("inductive-evolving on one graph needs masks: they say which nodes came first")
        return cut(graph, graph.masks.train), graph
    if inference.num_nodes != graph.num_nodes:
        raise InputError(
            f"inductive-evolving needs shared node ids, but the graphs have {graph.num_nodes} and "
            f"{inference.num_nodes} nodes; give both all nodes, or name no setting: epsilon is then the sum over both"
        )
    missing = int((~np.isin(graph.edge_ranks, inference.edge_ranks)).sum())
    if missing:
        raise InputError(f"{missing} training edges are not in the inference graph; an evolving graph only grows")
    return graph, inference
