"""The description of a model: everything `build` needs besides the sizes of the data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.models.architectures import MODELS, Architecture
from edgeveil.registry import canonical

__all__ = ["ACTIVATIONS", "BIASES", "INITS", "MODELS", "NORMS", "ModelSpec", "Settings", "layers_reach"]

NORMS = ("first-order", "aug", "bingge", "aug-rwalk")
ACTIVATIONS = ("relu", "selu", "elu")
BIASES = ("after", "before", "none")
INITS = ("glorot", "uniform-out", "uniform-in")

S = TypeVar("S", bound="Settings")


class Settings:
    """A frozen dataclass that travels as plain JSON."""

    def to_json(self) -> dict[str, Any]:
        """JSON-ready dictionary of all fields."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]

    @classmethod
    def from_json(cls: type[S], data: dict[str, Any] | str) -> S:
        """The inverse of `to_json`; also reads the JSON text. Unknown fields are an error that names them."""
        values = json.loads(data) if isinstance(data, str) else dict(data)
        known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
        for key in values:
            if key not in known:
                raise UnknownNameError(f"field of {cls.__name__}", key, known)
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class ModelSpec(Settings):
    """A node classifier. `layers` counts weight layers; `hidden` is the width per head where there are heads.

    bias: "after" the aggregation (LinkTeller), "before" it (LPGNet's GCN) or "none" (LPGNet's MLPs); True and False
    mean "after" and "none". heads/out_heads: attention heads of the hidden layers (concatenated) and of the last one
    (averaged). skip: a linear residual around each layer; None is the model's own habit (transformer: yes, others:
    no). fanout: GraphSAGE samples that many neighbours per node and layer while training. kprop: K_x steps of KProp
    in front. init: None is the layer's usual one; "uniform-out" is the U(±1/sqrt(out)) of LinkTeller's code.
    """

    name: str = "gcn"
    hidden: int = 16
    layers: int = 2
    dropout: float = 0.5
    norm: str = "aug"
    activation: str = "relu"
    bias: str | bool = "after"
    heads: int = 4
    out_heads: int = 1
    skip: bool | None = None
    fanout: int | None = None
    kprop: int = 0
    init: str | None = None

    def __post_init__(self) -> None:
        place = {True: "after", False: "none"}.get(self.bias, self.bias) if isinstance(self.bias, bool) else self.bias
        object.__setattr__(self, "bias", place)
        object.__setattr__(self, "name", canonical(self.name))
        kind = self.architecture
        if not kind.layered:
            self._check_own()
        for what, value, choices in (
            ("normalisation", self.norm, NORMS),
            ("activation", self.activation, ACTIVATIONS),
            ("bias place", str(self.bias), BIASES),
            ("initialisation", self.init or INITS[0], INITS),
        ):
            if value not in choices:
                raise UnknownNameError(what, value, choices)
        for key, least in (("hidden", 1), ("layers", 1), ("heads", 1), ("out_heads", 1), ("kprop", 0)):
            if getattr(self, key) < least:
                raise InputError(f"{key} must be at least {least}, got {getattr(self, key)}")
        if not 0.0 <= self.dropout < 1.0:
            raise InputError(f"dropout must lie in [0, 1), got {self.dropout}; it is the share of units switched off")
        if self.fanout is not None and (not kind.samples or self.fanout < 1):
            raise InputError(
                f"fanout={self.fanout} must be at least 1 and applies to models that sample neighbours "
                f"({_that(lambda k: k.samples)}), not to {self.name!r}"
            )
        if self.skip and not kind.takes_skip:
            raise InputError(f"{self.name!r} takes no skip connection (its layers see the node itself); leave skip out")
        if self.bias not in kind.biases:
            raise InputError(
                f"a bias {self.bias} aggregation exists for {_that(lambda k: self.bias in k.biases)}, not for "
                f"{self.name!r}; use {' or '.join(map(repr, kind.biases))}"
            )

    @property
    def architecture(self) -> Architecture:
        """What is registered under the name."""
        from edgeveil.models.own_models import architecture_of

        return architecture_of(self.name)

    def _check_own(self) -> None:
        """A module from outside has its own widths and layers; `layers` says how far it was found to reach."""
        for entry in fields(self):
            if entry.name not in ("name", "layers", "kprop") and getattr(self, entry.name) != entry.default:
                raise InputError(f"{entry.name} is no setting of the own model {self.name!r}; set it in its factory")

    @property
    def attends(self) -> bool:
        """Whether the model learns its edge weights."""
        return self.architecture.attends

    @property
    def local(self) -> bool:
        """Whether a node's output depends on its own features only."""
        return self.architecture.rowwise and self.kprop == 0

    @property
    def has_skip(self) -> bool:
        """The residual actually in use."""
        return self.architecture.skips if self.skip is None else self.skip


def layers_reach(spec: ModelSpec) -> int:
    """How many hops a feature can travel to an output."""
    return spec.kprop + (0 if spec.architecture.rowwise else spec.layers)


def _that(fact: Callable[[type[Architecture]], bool]) -> str:
    """The names of the models of which a fact is true."""
    return ", ".join(repr(entry.name) for entry in MODELS if fact(entry.cls))
