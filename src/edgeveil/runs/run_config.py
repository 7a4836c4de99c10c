"""What one run is: plain, frozen, hashable settings. Equal settings on equal data with equal code give equal rows."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_serializer, field_validator, model_validator

from edgeveil.graph.scaling import check_scaling
from edgeveil.registry import canonical

__all__ = [
    "BELIEFS",
    "PRESET_HELP",
    "SCALING_HELP",
    "AttackConfig",
    "Degree",
    "RunConfig",
    "ScalingName",
    "canonical_json",
    "content_id",
]

Degree = Literal["low", "unconstrained", "high"]
ScalingName = Annotated[str, AfterValidator(check_scaling)]
Protocol = Literal["subset", "balanced", "sampled", "given"]
PRESET_HELP = "Whose hyper-parameters: default (what fits the defence), linkteller, lpgnet, graphprivatizer."
SCALING_HELP = (
    "How features are scaled: auto (the preset's for a paper's dataset; own data: by row for sparse bags of words, "
    "else standardised), row, standard, minmax or none."
)
BELIEFS = ("k/4", "k/2", "k", "2k", "4k")


def _graph_name(value: str | None) -> str | None:
    """Names have one spelling, paths stay as they are."""
    return value if value is None or "/" in value or value.endswith(".npz") else canonical(value)


class Frozen(BaseModel):
    """Immutable settings that refuse unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AttackConfig(Frozen):
    """One attack and whom it attacks."""

    name: str = Field(default="linkteller", description="Registered attack.")
    params: dict[str, Any] = Field(
        default_factory=dict, description="The attack's own parameters, e.g. variant, mode, queries."
    )
    protocol: Protocol = Field(
        default="subset",
        description="subset: all pairs among some nodes (LinkTeller); balanced: all edges and as many non-edges "
        "(He et al.); sampled: some edges and non-edges (LPGNet, GraphPrivatizer); given: nodes or pairs that a "
        "Python caller hands over.",
    )
    degrees: tuple[Degree, ...] = Field(default=("unconstrained",), description="Degree classes; protocol subset only.")
    beliefs: tuple[str, ...] = Field(default=BELIEFS, description="Density beliefs, as multiples of the density k.")
    density: Literal["rounded", "exact"] = Field(
        default="rounded",
        description="The density k that beliefs are multiples of: edges among the attacked pairs over pairs, rounded "
        "to one digit for protocol subset as LinkTeller does, or exact.",
    )
    drawn: Literal["nodes", "edges"] = Field(
        default="nodes",
        description="How protocol subset draws nodes: with equal chances, or half of them as the ends of drawn edges, "
        "pairs weighted by how likely they were to be drawn (for sparse graphs).",
    )
    nodes: int = Field(default=500, ge=2, description="Attacked nodes (subset), or edges and non-edges each (sampled).")
    sample_seeds: tuple[int, ...] | None = Field(
        default=None, description="Seeds of the attacked nodes or pairs; default: one that follows from the run's seed."
    )
    seed: int | None = Field(
        default=None, ge=0, description="Seed of the attack's own draws; default: that of the attacked sample."
    )
    pair_variant: Literal["correct", "published", "first-rows"] = Field(
        default="correct",
        description="How protocol sampled draws pairs: uniformly; as LPGNet's code (node first); or with non-edges "
        "of the first few nodes only, as GraphPrivatizer's code.",
    )
    bypass_kprop: bool = Field(
        default=False, description="Attack the model without KProp in front, as GraphPrivatizer's code did."
    )

    shadow: str | None = Field(
        default=None,
        description="Public graph that the attacker learns from: a name or a graph.npz; never the attacked one.",
    )
    knows: float = Field(
        default=0.0, ge=0, lt=1, description="Share of the true edges that the attacker knows; they are not scored."
    )
    where_it_fits: bool = Field(
        default=False, description="Leave the attack out, without an error, where it cannot say anything of a release."
    )
    if_it_applies: bool = Field(
        default=False, description="Note, without an error, where a release lacks what the attack needs."
    )
    answer: Literal["logits", "probabilities", "labels"] = Field(
        default="logits", description="What the attacked service answers; exact influence needs logits."
    )
    dtype: Literal["float64", "float32"] = Field(default="float64", description="Precision the service computes in.")
    decimals: int | None = Field(default=None, ge=0, description="Decimals the service rounds its answers to.")

    @property
    def service(self) -> str | None:
        """How the attacked service answers, None for logits in double precision."""
        words = [self.answer, self.dtype, *([] if self.decimals is None else [f"{self.decimals} decimals"])]
        return None if words == ["logits", "float64"] else ", ".join(words)

    _names = field_validator("name")(canonical)
    _shadow = field_validator("shadow")(_graph_name)


class RunConfig(Frozen):
    """One release and every attack on it: the unit of work, of resuming and of retrying."""

    dataset: str = Field(description="The graph that is answered for and attacked: a name or a path to a graph.npz.")
    train_on: str | None = Field(
        default=None, description="Another graph to train on (twitch-es for the Twitch graphs)."
    )
    split: str | None = Field(
        default=None,
        description="Split of the training graph; default: the dataset's own; given: as handed over.",
    )
    split_seed: int = Field(default=0, ge=0, description="Seed of a drawn split.")
    setting: str | None = Field(
        default=None,
        description="transductive, inductive, inductive-different or inductive-evolving; default: transductive, with a "
        "training graph of its own inductive (epsilon of both graphs adds up).",
    )
    defence: str = Field(default="none", description="Registered defence.")
    defence_params: dict[str, Any] = Field(default_factory=dict, description="The defence's own parameters.")
    epsilon: float | None = Field(
        default=None, gt=0, description="Privacy budget; leave out where the defence takes none."
    )
    model: str = Field(
        default="gcn",
        description="gcn, gat, gatv2, sage, graphconv, transformer or mlp; or an own one: pkg.module:factory, "
        "file.py:factory, pyg:GIN.",
    )
    model_code: str | None = Field(default=None, description="Digest of an own model's code; filled in.")
    model_params: dict[str, Any] = Field(
        default_factory=dict, description="Fields of the model that replace the preset's."
    )
    train_params: dict[str, Any] = Field(
        default_factory=dict, description="Fields of training that replace the preset's."
    )
    preset: str = Field(default="default", description=PRESET_HELP)
    scaling: ScalingName = Field(default="auto", description=SCALING_HELP)
    seed: int = Field(default=0, ge=0, description="Seed of noise, weights and dropout.")
    utility: str | None = Field(
        default=None, description="Utility metric of the rows; default: rare_f1 for two classes, else micro_f1."
    )
    attacks: tuple[AttackConfig, ...] = Field(default=(), description="Attacks on the release.")
    details: bool = Field(
        default=False, description="Also keep curves, the guarantee and which edges are found; for the owner's eyes."
    )

    _names = field_validator("dataset", "train_on", "defence", "model", "preset")(_graph_name)

    @model_validator(mode="after")
    def _shadow_is_another_graph(self) -> RunConfig:
        for attack in self.attacks:
            if attack.shadow in (self.dataset, self.train_on) and attack.shadow is not None:
                raise ValueError(f"the shadow graph {attack.shadow!r} is the graph under attack; name a public one")
        return self

    @model_validator(mode="before")
    @classmethod
    def _fill_model_code(cls, values: Any) -> Any:
        """Rows of an own model are its code's, wherever its file lies: measured again when the code changes."""
        own = isinstance(values, dict) and ":" in str(values.get("model", "")) and not values.get("model_code")
        if not own:
            return values
        from edgeveil.models.own_models import code_of, model_name

        name = model_name(values["model"])
        return {**values, "model": name, "model_code": code_of(name)}

    @field_serializer("epsilon")
    def _finite(self, value: float | None) -> float | str | None:
        return "inf" if value is not None and math.isinf(value) else value

    def to_json(self) -> dict[str, Any]:
        """Plain values, defaults left out, so that a new optional field does not change old ids."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        return {key: value for key, value in values.items() if value is not None}

    @property
    def paper(self) -> str:
        """Whose hyper-parameters this run trains with."""
        from edgeveil.defences.defend import fitting_paper, make_defence

        return fitting_paper(self.preset, lambda: make_defence(self.defence, self.epsilon, **self.defence_params))

    @property
    def graphs(self) -> tuple[str, ...]:
        """Names of the graphs it needs."""
        own = (self.dataset,) if self.train_on is None else (self.train_on, self.dataset)
        return tuple(dict.fromkeys([*own, *(a.shadow for a in self.attacks if a.shadow is not None)]))

    @property
    def group(self) -> str:
        """Runs of one group share work (features, a split, a first MLP) and are best done by one worker in turn."""
        parts = (self.dataset, self.train_on, self.split, self.split_seed, self.preset, self.seed)
        return "|".join(map(str, parts))


def canonical_json(value: Any) -> str:
    """One spelling per value: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def content_id(config: Mapping[str, Any], fingerprints: Mapping[str, str], code: str) -> str:
    """Id of a run: settings, content of its graphs and the code that matters; 64 bits are plenty for any sweep."""
    return hashlib.sha256(canonical_json([config, dict(fingerprints), code]).encode()).hexdigest()[:16]
