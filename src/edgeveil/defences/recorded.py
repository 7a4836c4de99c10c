"""Entering what a defence tells into a privacy ledger: refused before any noise is drawn, charged before it leaves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from edgeveil.defences.defence import Defence, EdgeMechanism
from edgeveil.graph.graph import Graph
from edgeveil.privacy.budget import exact
from edgeveil.privacy.guarantee import ONE_EDGE, Guarantee
from edgeveil.release.identity import release_identity
from edgeveil.release.release import Release

if TYPE_CHECKING:
    from edgeveil.privacy.ledger.ledger import Ledger
    from edgeveil.privacy.ledger.units import Cost

__all__ = ["make_recorded", "planned_cost", "record", "renew_recorded"]


def record(
    ledger: str | Path | Ledger, guarantee: Guarantee, graph: Graph, what: str, *, edge_set: str | None = None,
    tenant: str = "owner",
) -> None:  # fmt: skip
    """Charge what a mechanism is about to tell about a graph; call it before the mechanism draws its noise."""
    from edgeveil.privacy.ledger import require_extra

    require_extra("recording in a ledger")
    from edgeveil.privacy.ledger.recording import recording
    from edgeveil.privacy.ledger.units import cost_of

    with recording(ledger, [graph], edge_set=edge_set, tenant=tenant) as recorder:
        recorder.charge(cost_of(guarantee), what)


def make_recorded(
    make: Callable[[], Release],
    ledger: str | Path | Ledger,
    graphs: Sequence[Graph],
    planned: Callable[[], Cost],
    what: str,
    *,
    edge_set: str | None,
    tenant: str,
) -> Release:
    """Make a release only if its plan fits the caps, and hand it out only once its own guarantee is charged."""
    from edgeveil.privacy.ledger import require_extra

    require_extra("recording in a ledger")
    from edgeveil.privacy.ledger.recording import recording
    from edgeveil.privacy.ledger.units import cost_of

    with recording(ledger, graphs, edge_set=edge_set, tenant=tenant) as recorder:
        recorder.check(planned(), what)
        release = make()
        recorder.charge(cost_of(release.guarantee), what, product=release_identity(release))
        return release


def planned_cost(defence: Defence, seed: int | None, times: int) -> Cost:
    """What a release under this defence will cost one undirected edge, before it is made; never more than it states."""
    from edgeveil.privacy.ledger.units import Cost, cost_of

    if isinstance(defence, EdgeMechanism):
        one = cost_of(defence.mechanism_guarantee(seed))
        return Cost(one.epsilon * times, one.delta * times, one.unbounded)
    if defence.status != "sound" or defence.unit != ONE_EDGE:
        return Cost(unbounded="no guarantee for edges")
    epsilon = getattr(defence, "epsilon", 0.0)
    if not math.isfinite(epsilon):
        return Cost(unbounded="no noise")
    if seed is not None and epsilon:
        return Cost(unbounded="the noise is seeded")
    return Cost(exact(epsilon) * times, _delta(getattr(defence, "delta", None)))


def _delta(given: float | None) -> Fraction:
    return Fraction(0) if given is None else exact(given)


def renew_recorded(
    make: Callable[[], Release],
    release: Release,
    graph: Graph,
    cost: Fraction,
    ledger: str | Path | Ledger,
    *,
    edge_set: str | None,
    tenant: str,
) -> Release:
    """Charge a renewal for the new statistic alone if the tenant has paid for the release it starts from, else for all.

    Its weights tell of the old edges too, so whoever was not told of them yet pays for both.
    """
    from edgeveil.privacy.ledger import require_extra

    require_extra("recording in a ledger")
    from edgeveil.privacy.ledger.recording import recording
    from edgeveil.privacy.ledger.units import Cost, cost_of

    what = f"renew {release.defence}"
    with recording(ledger, [graph], edge_set=edge_set, tenant=tenant) as recorder:
        sealed = recorder.ledger.key.seal(release_identity(release))
        known = recorder.ledger.of_product(sealed, tenant)
        base = cost_of(release.guarantee)
        before = Cost() if known is None else base
        delta = base.delta - before.delta + _delta(release.params.get("delta"))
        recorder.check(Cost(cost + base.epsilon - before.epsilon, delta, base.unbounded), what)
        made = make()
        whole = cost_of(made.guarantee)
        epsilon, delta = max(whole.epsilon - before.epsilon, cost), max(whole.delta - before.delta, Fraction(0))
        recorder.charge(Cost(epsilon, delta, whole.unbounded), what, product=release_identity(made))
        return made
