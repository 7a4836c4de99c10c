"""Sweep plans: a TOML file of grids, checked field by field, expanded to runs.

name = "trade-off"
seeds = 3

[[grid]]
dataset = "cora"
defence = ["none", "mlp", "edgerand", "lapgraph"]
epsilon = [1, 2, 4, 8]

[[grid.attack]]
name = "linkteller"
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from edgeveil.errors import UnknownNameError, UsageError
from edgeveil.graph.scaling import check_scaling
from edgeveil.parameters import names_of
from edgeveil.registry import canonical
from edgeveil.runs.run_config import PRESET_HELP, SCALING_HELP, AttackConfig, Frozen, RunConfig, ScalingName

__all__ = ["Grid", "Plan", "load_plan", "model_for", "parse_plan", "takes_epsilon"]


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _seeds(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"a number of seeds is at least 1, got {value}")
        return list(range(value))
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]
Epsilons = Annotated[tuple[Annotated[float, Field(gt=0)], ...], BeforeValidator(_listed), Field(min_length=1)]
Seeds = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(_seeds), Field(min_length=1)]


class Grid(Frozen):
    """All combinations of these lists. A single value may stand for a list of one."""

    dataset: Names = Field(description="Graphs to answer for and attack: names or paths to graph.npz files.")
    train_on: str | None = Field(
        default=None, description="Another graph to train on (twitch-es for the Twitch graphs)."
    )
    split: str | None = Field(default=None, description="Split of the training graph; default: the dataset's own.")
    split_seed: int | str = Field(default=0, description='Seed of a drawn split, or "run" to draw one per seed.')
    setting: str | None = Field(
        default=None,
        description="transductive, inductive, inductive-different or inductive-evolving; default: transductive, with a "
        "training graph of its own inductive (epsilon of both graphs adds up).",
    )
    defence: Names = Field(
        default=("none",), description="Defences. One without an epsilon is run once, not once per epsilon."
    )
    variant: Names = Field(
        default=("correct",), description="correct, published or both; used by defences that have variants."
    )
    epsilon: Epsilons = Field(default=(1.0, 2.0, 4.0, 8.0), description="Privacy budgets; inf means no edge noise.")
    model: Names = Field(
        default=("gcn",), description="Models. Defences that bring their own ignore all but the first."
    )
    preset: str = Field(default="default", description=PRESET_HELP)
    scaling: ScalingName = Field(default="auto", description=SCALING_HELP)
    params: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Parameters per defence: [grid.params.lpgnet] layers = 2."
    )
    model_params: dict[str, Any] = Field(
        default_factory=dict, description="Fields of the model that replace the preset's."
    )
    train_params: dict[str, Any] = Field(
        default_factory=dict, description="Fields of training that replace the preset's."
    )
    utility: str | None = Field(
        default=None, description="Utility metric of the rows; default: rare_f1 for two classes, else micro_f1."
    )
    seeds: Seeds | None = Field(default=None, description="Seeds of this grid; default: the plan's.")
    attack: tuple[AttackConfig, ...] = Field(
        default=(), description="Attacks on every release: [[grid.attack]] tables."
    )

    def runs(self, seeds: Sequence[int]) -> Iterator[RunConfig]:
        """Every combination, in the order written, seeds outermost so that early results cover the grid."""
        own = seeds if self.seeds is None else self.seeds
        for seed, dataset, defence in itertools.product(own, self.dataset, self.defence):
            epsilons = self.epsilon if takes_epsilon(defence) else (None,)
            variants = self.variant if _takes(defence, "variant") else (None,)
            models = dict.fromkeys(model_for(defence, model) for model in self.model)
            for variant, model, epsilon in itertools.product(variants, models, epsilons):
                params = next((dict(p) for name, p in self.params.items() if canonical(name) == canonical(defence)), {})
                if variant is not None:
                    params["variant"] = variant
                yield RunConfig(
                    dataset=dataset, train_on=self.train_on, split=self.split,
                    split_seed=seed if self.split_seed == "run" else int(self.split_seed), setting=self.setting,
                    defence=defence, defence_params=params, epsilon=epsilon, model=model,
                    model_params=self.model_params, train_params=self.train_params, preset=self.preset, seed=seed,
                    utility=self.utility, attacks=self.attack, scaling=self.scaling,
                )  # fmt: skip


class Plan(Frozen):
    """A named list of grids."""

    name: str = Field(default="sweep", min_length=1, description="Stored with every row.")
    seeds: Seeds = Field(default=(0,), description="A number of seeds (0, 1, ...) or a list of them.")
    grid: tuple[Grid, ...] = Field(min_length=1, description="One [[grid]] table per grid.")

    def runs(self) -> list[RunConfig]:
        """Distinct runs of all grids, in order; names that nobody knows are refused before anything runs."""
        for grid in self.grid:
            _check_names(grid)
        found = (run for grid in self.grid for run in grid.runs(self.seeds))
        return list({str(run.to_json()): run for run in found}.values())

    def scaled(self, scaling: str | None) -> Plan:
        """The plan with another feature scaling in every grid; None leaves it as it is."""
        if scaling is None:
            return self
        check_scaling(scaling)
        return self._with(scaling=scaling)

    def modelled(self, model: str | None) -> Plan:
        """The plan with another model in every grid; defences that bring their own keep it."""
        return self if model is None else self._with(model=(model,))

    def _with(self, **values: Any) -> Plan:
        return self.model_copy(update={"grid": tuple(grid.model_copy(update=values) for grid in self.grid)})


def takes_epsilon(defence: str) -> bool:
    """Whether a defence under this name is given an epsilon."""
    return _takes(defence, "epsilon")


def _takes(defence: str, parameter: str) -> bool:
    from edgeveil.defences.defence import DEFENCES

    return DEFENCES.takes(defence, parameter)


def model_for(defence: str, model: str) -> str:
    """The model that a run names: the one asked for, or that of a defence which takes none from its caller."""
    from edgeveil.defences.defence import DEFENCES

    return DEFENCES.get(defence).own_model or model


def _check_names(grid: Grid) -> None:
    """Defences, attacks, models, presets, beliefs and the keys of every table of parameters."""
    from edgeveil.attacks.attack import ATTACKS
    from edgeveil.defences.defence import DEFENCES
    from edgeveil.models.presets import preset
    from edgeveil.runs.score import KNOWN_BELIEFS

    own = {canonical(name): name for name in grid.defence}
    for name, params in grid.params.items():
        if canonical(name) not in own:
            raise UnknownNameError("defence of this grid in params:", name, grid.defence)
        _known(params, DEFENCES.get(name), f"key in params.{name}:")
    for attack in grid.attack:
        _known(attack.params, ATTACKS.get(attack.name), f"parameter of attack {attack.name!r}:")
        _known(attack.beliefs, KNOWN_BELIEFS, "belief")
    for model in grid.model:
        base = preset(grid.preset, "", model)
        _known(grid.model_params, base.model, "key in model_params:")
        _known(grid.train_params, base.train, "key in train_params:")
        if not base.model.architecture.layered:
            replace(base.model, **grid.model_params)


def _known(names: Iterable[str], where: Any, what: str) -> None:
    fields = names_of(where) if isinstance(where, type) else getattr(where, "__dataclass_fields__", where)
    for name in names:
        if name not in fields:
            raise UnknownNameError(what, name, list(fields))


def load_plan(path: Path) -> Plan:
    """Read and check a plan file."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the plan {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    return parse_plan(data, str(path))


def parse_plan(data: Mapping[str, Any], source: str = "plan") -> Plan:
    """Check a plan; the first mistake is reported with its place, and an unknown key with the nearest known one."""
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        first = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
        loc = [str(part) for part in first["loc"]]
        if first["type"] == "extra_forbidden":
            model = AttackConfig if "attack" in loc[:-1] else Grid if "grid" in loc[:-1] else Plan
            where = ".".join(loc[:-1]) or "the top level"
            raise UnknownNameError(f"key in {source} at {where}:", loc[-1], model.model_fields) from error
        raise UsageError(f"{source}: {'.'.join(loc)}: {first['msg']}; got {first.get('input')!r}") from error
