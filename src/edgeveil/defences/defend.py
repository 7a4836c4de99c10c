"""`defend`: one call from a private graph to a release."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeveil.defences.defence import DEFENCES, Defence, registered_name
from edgeveil.defences.job import make_job
from edgeveil.defences.recorded import make_recorded, planned_cost
from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.graph.scaling import check_scaling
from edgeveil.models.own_models import OwnModel, model_name
from edgeveil.models.presets import Preset, preset
from edgeveil.models.settings import TrainSpec
from edgeveil.models.spec import ModelSpec
from edgeveil.parameters import names_of
from edgeveil.privacy.budget import check_epsilon
from edgeveil.release.release import Release
from edgeveil.seeds import check_seed

if TYPE_CHECKING:
    from edgeveil.privacy.ledger.ledger import Ledger

__all__ = ["defend", "fitting_paper", "make_defence"]


def make_defence(name: str, epsilon: float | None = None, **params: Any) -> Defence:
    """The defence behind a name; checks that an epsilon is given exactly where one belongs."""
    if "epsilon" not in names_of(DEFENCES.get(name)):
        if epsilon is not None:
            raise InputError(f"{name!r} takes no epsilon; drop it")
        return DEFENCES.create(name, **params)
    entry = DEFENCES.entry(name)
    if "epsilon" in entry.preset:
        return DEFENCES.create(name, **params)
    return DEFENCES.create(name, epsilon=check_epsilon(epsilon, infinite=True), **params)


def fitting_paper(preset: str, defence: Callable[[], Defence]) -> str:
    """Whose hyper-parameters are used: the preset's that is named; by default those that fit the defence."""
    return defence().paper if preset == "default" else preset


def defend(
    graph: Graph,
    defence: str | Defence = "none",
    *,
    epsilon: float | None = None,
    model: str | ModelSpec | OwnModel | Callable[[int, int], Any] = "gcn",
    seed: int | None = None,
    inference_graph: Graph | None = None,
    setting: str | None = None,
    preset: str = "default",
    train: TrainSpec | None = None,
    scaling: str | None = None,
    progress: Callable[..., None] | None = None,
    ledger: str | Path | Ledger | None = None,
    edge_set: str | None = None,
    tenant: str = "owner",
    **params: Any,
) -> Release:
    """Train under a defence and return what may be published.

    Without `seed` the noise comes from the operating system; with one it is reproducible and not private.
    `preset` names the paper whose hyper-parameters to use for this dataset and model ("default": what fits the
    defence); `model`, `train` and `scaling` (auto, row, standard, minmax, none) override its parts; auto is the
    preset's for a paper's dataset and follows the data elsewhere. Further keywords are the defence's own parameters.
    `model` is a name, a spec, or an own model: `factory(in_dim, out_dim)` that gives a torch module, or its path.
    `ledger` (a file or database address) records what `tenant` is told about the edges of `edge_set` (default: the
    graph's name); it refuses before any noise is drawn when a cap would break.
    """
    if seed is not None:
        check_seed(seed)
    if not isinstance(model, ModelSpec):
        model = model_name(model)
    chosen = _chosen(defence, epsilon, params)
    base = _preset(fitting_paper(preset, lambda: chosen), graph, model)
    by_preset = scaling in (None, "auto")
    job = make_job(
        graph,
        inference_graph,
        setting,
        model=model if isinstance(model, ModelSpec) else base.model,
        train=train or base.train,
        scaling=base.scaling if by_preset else check_scaling(scaling),
        fit_scaling_on="all nodes" if by_preset and graph.dataset else "training nodes",
        seed=seed,
        progress=progress,
    )
    if chosen.status == "sound":
        job.check_public_nodes()
    if ledger is None:
        return chosen.release(job)
    return make_recorded(
        lambda: chosen.release(job), ledger, [graph] if inference_graph is None else [graph, inference_graph],
        lambda: planned_cost(chosen, seed, job.times), f"release {registered_name(chosen)}", edge_set=edge_set,
        tenant=tenant,
    )  # fmt: skip


def _chosen(defence: str | Defence, epsilon: float | None, params: dict[str, Any]) -> Defence:
    """The defence; a keyword that nobody knows is an argument of `defend`, whoever was meant to get it."""
    own = [name for name, p in inspect.signature(defend).parameters.items() if p.kind is not p.VAR_KEYWORD]
    if isinstance(defence, Defence):
        if params:
            raise UnknownNameError("argument of defend", min(params), own)
        return defence
    theirs = [p.name for p in DEFENCES.parameters(defence) if p.name != "epsilon"]
    for name in params:
        if name not in names_of(DEFENCES.get(defence)):
            raise UnknownNameError(f"argument of defend with {defence!r}", name, [*theirs, *own])
    return make_defence(defence, epsilon, **params)


def _preset(paper: str, graph: Graph, model: str | ModelSpec) -> Preset:
    name = model.name if isinstance(model, ModelSpec) else model
    return preset(paper, graph.dataset, name)
