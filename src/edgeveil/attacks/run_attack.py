"""`attack`: one call from a release (or any target) to scored pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from edgeveil.attacks.attack import ATTACKS, Attack, AttackResult
from edgeveil.errors import InputError
from edgeveil.release.target import AttackerView, PublicGraph, Target, check_nodes

__all__ = ["SPARSE_ABOVE", "attack", "make_attack", "make_view"]

SPARSE_ABOVE = 6000  # nodes; 18 million pairs are the most that a result lists one by one


def make_attack(name: str, mode: str | None = None, **params: Any) -> Attack:
    """The attack behind a name; `mode` only where the attack knows modes."""
    if mode is not None:
        if not ATTACKS.takes(name, "mode"):
            raise InputError(f"{name!r} has no modes, got mode={mode!r}; drop it")
        params["mode"] = mode
    return ATTACKS.create(name, **params)


def make_view(
    target: Target,
    nodes: Any = None,
    *,
    pairs: Any = None,
    features: Any = None,
    density: float | None = None,
    known_edges: Any = None,
    known_non_edges: Any = None,
    shadow: Any = None,
    controlled_features: Any = None,
) -> AttackerView:
    """What Bob knows about `target`: by default all nodes, and the features its owner shares.

    `features` has one row per node of the target, or one per entry of `nodes`.
    """
    if density is not None and not 0 <= density <= 1:
        raise InputError(f"a density belief is a share of all pairs, 0 to 1, got {density!r}")
    asked = None if pairs is None else _check_pairs(pairs, target.num_nodes)
    if nodes is None:
        ids = np.arange(target.num_nodes) if asked is None else np.unique(asked)
    else:
        ids = check_nodes(nodes, target.num_nodes)
        if asked is not None and not np.isin(asked, ids).all():
            raise InputError("pairs name nodes outside `nodes`; drop nodes= or add them")
    if asked is None and len(ids) < 2:
        raise InputError(f"{len(ids)} node has no pair to score; an attack needs at least two nodes")
    known = None if known_edges is None else _check_pairs(known_edges, target.num_nodes, "known_edges")
    other = None if known_non_edges is None else _check_pairs(known_non_edges, target.num_nodes, "known_non_edges")
    _check_disjoint(known, other)
    columns = None if controlled_features is None else np.unique(np.asarray(controlled_features, np.int64))
    return AttackerView(
        nodes=ids,
        features=_own_rows(target.features if features is None else features, ids, target.num_nodes),
        pairs=asked,
        known_edges=known,
        known_non_edges=other,
        shadow=None if shadow is None else PublicGraph.of(shadow),
        density=density,
        controlled_features=columns,
        whole_graph=asked is None and (nodes is None or len(ids) > SPARSE_ABOVE),
    )


def attack(
    release_or_target: Any,
    name: str = "linkteller",
    nodes: Any = None,
    mode: str | None = None,
    seed: int = 0,
    density: float | None = None,
    pairs: Any = None,
    *,
    features: Any = None,
    known_edges: Any = None,
    known_non_edges: Any = None,
    shadow: Any = None,
    controlled_features: Any = None,
    **params: Any,
) -> AttackResult:
    """Attack a release or a target.

    `nodes`: all pairs among them are scored (default: the whole graph, as a sparse result). `pairs` [2, P]: only
    these, and only their nodes are queried. `mode`: ``exact`` (white box) or ``query`` (black box) for LinkTeller.
    `known_edges` and `known_non_edges` [2, K] are pairs that the attacker knows, `shadow` is a public graph (`ev.Graph`
    or `PublicGraph`) that he learns from. Further keywords are the attack's own parameters.
    """
    method = make_attack(name, mode, **params)
    target = release_or_target if isinstance(release_or_target, Target) else Target.local(release_or_target)
    view = make_view(
        target, nodes, pairs=pairs, features=features, density=density, known_edges=known_edges,
        known_non_edges=known_non_edges, shadow=shadow, controlled_features=controlled_features,
    )  # fmt: skip
    return method.run(target, view, seed)


def _check_pairs(pairs: Any, num_nodes: int, what: str = "pairs") -> Any:
    ends = np.asarray(pairs)
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu" or not ends.size:
        raise InputError(f"{what} must be an integer array [2, P] with P >= 1, got shape {list(ends.shape)}")
    bad = ends[(ends < 0) | (ends >= num_nodes)]
    if len(bad):
        raise InputError(f"unknown node {bad[0]} in {what}; the target answers for nodes 0..{num_nodes - 1}")
    return ends.astype(np.int64)


def _check_disjoint(edges: Any, non_edges: Any) -> None:
    if edges is None or non_edges is None:
        return
    both = {tuple(pair) for pair in np.sort(edges, axis=0).T.tolist()} & {
        tuple(pair) for pair in np.sort(non_edges, axis=0).T.tolist()
    }
    if both:
        raise InputError(f"the pair {min(both)} is in known_edges and in known_non_edges; it cannot be both")


def _own_rows(features: Any, ids: Any, num_nodes: int) -> Any:
    if features is None:
        return None
    if not (hasattr(features, "shape") or sp.issparse(features)):
        features = np.asarray(features, np.float64)
    if features.shape[0] == num_nodes:
        return features.take(ids) if hasattr(features, "rows") else features[ids]
    if features.shape[0] != len(ids):
        raise InputError(f"features have {features.shape[0]} rows; give one per node ({num_nodes}) or per asked node")
    return features
