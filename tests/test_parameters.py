"""Parameters: read off the dataclass, typed by its annotations, explained by its own words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest

from edgeveil.attacks.attack import ATTACKS
from edgeveil.defences.defence import DEFENCES
from edgeveil.errors import InputError
from edgeveil.parameters import parameters_of, parse_value


@dataclass(frozen=True, kw_only=True)
class Method:
    """Does things. `rate`: how fast; none is slow. `steps` says where. Nothing else."""

    epsilon: float
    """What one edge
    may cost."""
    rate: float | None = None
    steps: tuple[float, ...] = (1.0, 2.0)
    way: Literal["up", "down"] = "up"
    exact: bool = True
    count: int = 3

    reference: ClassVar[str] = "nobody"


def test_names_types_defaults_and_words() -> None:
    found = {p.name: p for p in parameters_of(Method)}
    assert list(found) == ["epsilon", "rate", "steps", "way", "exact", "count"]
    assert found["epsilon"].required and found["epsilon"].doc == "What one edge may cost."
    assert found["rate"].doc == "how fast; none is slow." and found["steps"].doc == "`steps` says where."
    assert str(found["exact"]) == "exact (true or false, default true)"
    assert str(found["rate"]).startswith("rate (number or none, default none): ")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("epsilon", "inf", float("inf")), ("rate", "none", None), ("rate", "1e-3", 1e-3), ("steps", "2, 8", (2.0, 8.0)),
        ("way", "down", "down"), ("exact", "no", False), ("exact", "True", True), ("count", "7", 7),
    ],
)  # fmt: skip
def test_texts_become_values_of_the_annotated_type(name: str, text: str, value: object) -> None:
    kind = next(p.type for p in parameters_of(Method) if p.name == name)
    assert parse_value(text, kind, name) == value and type(parse_value(text, kind, name)) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("epsilon", "nan"), ("epsilon", "none"), ("way", "left"), ("exact", "1"), ("count", "2.5"), ("steps", "a,b")],
)
def test_what_is_not_understood_is_refused_with_the_type(name: str, text: str) -> None:
    kind = next(p.type for p in parameters_of(Method) if p.name == name)
    with pytest.raises(InputError, match=f"{name}='{text}' is not understood; {name} is "):
        parse_value(text, kind, name)


@pytest.mark.parametrize("entry", [*ATTACKS, *DEFENCES], ids=lambda e: e.name)
def test_every_parameter_of_every_method_is_explained(entry: object) -> None:
    unsaid = [p.name for p in parameters_of(entry.cls) if not p.doc]  # type: ignore[attr-defined]
    assert not unsaid
