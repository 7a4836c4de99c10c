"""`defend` for a graph whose edges stay in files: same methods, one noisy answer, one charge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeveil.defences.defence import Defence, registered_name
from edgeveil.defences.defend import make_defence
from edgeveil.defences.recorded import planned_cost
from edgeveil.defences.stored.journal import open_journal
from edgeveil.defences.stored.stored_job import STREAMED, StoredJob
from edgeveil.graph.scaling import check_scaling
from edgeveil.graph.stored.graph_in_files import StoredGraph
from edgeveil.models.settings import TrainSpec
from edgeveil.release.identity import release_identity
from edgeveil.release.release import Release
from edgeveil.seeds import check_seed

if TYPE_CHECKING:
    from edgeveil.privacy.ledger.ledger import Ledger

__all__ = ["defend_stored"]


@contextmanager
def defend_stored(
    graph: StoredGraph,
    defence: str | Defence,
    *,
    epsilon: float | None = None,
    seed: int | None = None,
    train: TrainSpec = STREAMED,
    scaling: str = "auto",
    progress: Callable[..., None] | None = None,
    ledger: str | Path | Ledger | None = None,
    edge_set: str | None = None,
    tenant: str = "owner",
    **params: Any,
) -> Iterator[Release]:
    """A release, valid inside the block: save it there, for its arrays are mapped from the graph's work folder.

    Interrupted, the same call with the same work folder goes on: noisy answers that exist are used, never asked again,
    and the ledger, charged before the first question, is charged once.
    """
    if seed is not None:
        check_seed(seed)
    chosen = defence if isinstance(defence, Defence) else make_defence(defence, epsilon, **params)
    plan = {
        "defence": registered_name(chosen), "params": asdict(chosen), "seed": seed, "train": train.to_json(),  # type: ignore[call-overload]
        "scaling": check_scaling(scaling), "source": graph.source_facts(), "split": graph.nodes.fingerprint,
        "features": dict(graph.features),
    }  # fmt: skip
    with open_journal(graph.work, plan) as journal:
        job = StoredJob(graph=graph, journal=journal, train=train, scaling=scaling, seed=seed, progress=progress)
        if ledger is None:
            yield chosen.release_stored(job)
            return
        yield _recorded(chosen, job, ledger, edge_set, tenant)


def _recorded(
    chosen: Defence, job: StoredJob, ledger: str | Path | Ledger, edge_set: str | None, tenant: str
) -> Release:
    """Charge under the journal's token before anything is asked; a charge that exists is found, not repeated."""
    from edgeveil.privacy.ledger import require_extra

    require_extra("recording in a ledger")
    from edgeveil.privacy.ledger.recording import recording
    from edgeveil.privacy.ledger.units import cost_of

    what = f"release {registered_name(chosen)}"
    job.check()
    with recording(ledger, [job.graph], edge_set=edge_set, tenant=tenant) as recorder:
        claim = getattr(chosen, "mechanism_guarantee", None)
        cost = planned_cost(chosen, job.seed, 1) if claim is None else cost_of(claim(job.seed))
        spend = recorder.charge(cost, what, token=job.journal.token)
        release = chosen.release_stored(job)
        assert cost_of(release.guarantee) == cost
        recorder.settle(spend, release_identity(release))
        return release
