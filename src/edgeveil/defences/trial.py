"""Jobs for audits: a graph, a setting and a noise source, with features and labels that say nothing."""

from __future__ import annotations

import numpy as np

from edgeveil.defences.job import Job, Setting
from edgeveil.graph.graph import Graph
from edgeveil.models.settings import TrainSpec
from edgeveil.models.spec import ModelSpec

__all__ = ["trial_job"]


def trial_job(
    graph: Graph,
    seed: int | None,
    *,
    inference: Graph | None = None,
    setting: Setting = "transductive",
    classes: int = 1,
) -> Job:
    """A job whose noise stage can be run without training; `classes` is how many a release would tell apart."""
    train = _blank(graph, classes)
    other = train if inference is None else _blank(inference, classes)
    return Job(graph=train, inference=other, setting=setting, model=ModelSpec(), train=TrainSpec(), seed=seed)


def _blank(graph: Graph, classes: int) -> Graph:
    """The same edges without masks: every node trains, so a graph that grows repeats all of its edges."""
    n = graph.num_nodes
    x = np.ones((n, 1), np.float32) if graph.x is None else graph.x
    return Graph.from_edges(
        graph.edge_index, x, np.zeros(n, np.int64), num_nodes=n, num_classes=classes, name=graph.name
    )
