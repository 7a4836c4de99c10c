"""A trained release applied to a new or changed private graph: one fresh private statistic, no training.

The model's weights stay as they are, and they were learnt under the old release's epsilon: an edge that is in both
graphs pays for both, so that sum is what the new release states. Which statistic is asked, and what else it spends, is
for each method to declare (`edgeveil.defences.renewal`).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeveil.defences.defence import DEFENCES, Defence
from edgeveil.defences.recorded import renew_recorded
from edgeveil.defences.renewal import Renewal, Snapshot
from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.parameters import names_of
from edgeveil.privacy.budget import check_epsilon
from edgeveil.privacy.guarantee import ONE_EDGE
from edgeveil.release.release import Release

if TYPE_CHECKING:
    from edgeveil.privacy.ledger.ledger import Ledger

__all__ = ["named_as", "renew", "renewal_epsilon"]


def renewal_epsilon(
    release: Release, epsilon: float | None = None, graph: Graph | None = None, *, seed: int | None = None
) -> Fraction:
    """What `renew` would cost one undirected edge; refuses, before anything is charged, what it would refuse.

    With `graph`, its features are checked too.
    """
    if release.guarantee.unit != ONE_EDGE and release.guarantee.status == "sound":
        raise InputError(
            f"a {release.defence!r} release promises something for {release.guarantee.unit}, not for {ONE_EDGE}, so "
            "there is no epsilon to charge an edge; make a new release with another defence"
        )
    renewal = _renewal(release, epsilon, seed)
    if graph is not None:
        renewal.check(_snapshot(release, graph, seed))
    return renewal.epsilon


def renew(
    release: Release,
    graph: Graph,
    *,
    epsilon: float | None = None,
    seed: int | None = None,
    ledger: str | Path | Ledger | None = None,
    edge_set: str | None = None,
    tenant: str = "owner",
) -> Release:
    """The release's model answering for `graph`. `graph.x` is in model space; None keeps the stored features.

    Model space of a release with private features is before their noise: columns scaled to [0, 1] by the public range.
    The new features are then privatised again, and what that costs a node is added to its promise. `ledger`,
    `edge_set` and `tenant` record the spend as in `defend`.
    """
    renewal = _renewal(release, epsilon, seed)
    snapshot = _snapshot(release, graph, seed)
    renewal.check(snapshot)
    if ledger is None:
        return _answer(release, renewal, snapshot)
    return renew_recorded(
        lambda: _answer(release, renewal, snapshot), release, snapshot.graph, renewal.epsilon, ledger,
        edge_set=edge_set, tenant=tenant,
    )  # fmt: skip


def named_as(release: Release, graph: Graph) -> Graph:
    """The graph with the release's ids, if it has neither ids nor features: its rows are then the release's nodes."""
    if graph.x is not None or graph.node_ids is not None or graph.num_nodes != release.num_nodes:
        return graph
    return replace(graph, node_ids=release.node_ids)


def _answer(release: Release, renewal: Renewal, snapshot: Snapshot) -> Release:
    predictor, matrix, guarantee = renewal.answer(snapshot)
    spent = {"epsilon": float(renewal.epsilon)} if "epsilon" in release.params else {}
    return replace(
        release, predictor=predictor, matrix=matrix, guarantee=guarantee, params={**release.params, **spent},
        dataset=snapshot.graph.name, is_twin=snapshot.graph.is_twin, evaluation=None,
        node_ids=snapshot.graph.node_ids,
    )  # fmt: skip


def _renewal(release: Release, epsilon: float | None, seed: int | None) -> Renewal:
    """The method's own declaration at the chosen epsilon (default: what the release itself was made with)."""
    if release.guarantee.status != "sound":
        raise InputError(
            f"a {release.defence!r} release has no sound guarantee, so a new graph has no epsilon to be charged; "
            "make a new release instead"
        )
    cls: Any = DEFENCES.get(release.defence)
    chosen = {} if epsilon is None or "epsilon" not in names_of(cls) else {"epsilon": check_epsilon(epsilon)}
    defence: Defence = cls(**{**release.params, **chosen})
    return defence.renewal(seed)


def _snapshot(release: Release, graph: Graph, seed: int | None) -> Snapshot:
    graph.check_public_nodes()
    graph = named_as(release, graph)
    if graph.x is not None:
        x = FeatureMatrix.wrap(graph.x)
        if x.shape[1] != release.matrix.shape[1]:
            raise InputError(f"features must have {release.matrix.shape[1]} columns (model space), got {x.shape[1]}")
        return Snapshot(release, graph, x, True, seed)
    if graph.num_nodes != release.num_nodes:
        raise InputError(
            f"the graph has {graph.num_nodes} nodes, the release stores features of {release.num_nodes}; send features"
        )
    return Snapshot(release, graph, release.matrix, False, seed)
