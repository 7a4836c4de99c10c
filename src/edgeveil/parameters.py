"""What a method's parameters are: names, types, defaults and the words its class says about each.

A parameter is a field of a frozen dataclass that its constructor takes. What it means stands below the field as a
string, or in the class's docstring, in the sentences that put its name in backticks.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
import types
import typing
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from edgeveil.errors import InputError

__all__ = ["Parameter", "names_of", "parameters_of", "parse_value"]

EMPTY = ("none", "null", "")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method."""

    name: str
    type: Any
    default: Any
    doc: str

    @property
    def required(self) -> bool:
        """Whether the method cannot be made without it."""
        return self.default is MISSING

    @property
    def kind(self) -> str:
        """The type in the words of a command line."""
        return _words(self.type)

    def __str__(self) -> str:
        default = "required" if self.required else f"default {_shown(self.default)}"
        return f"{self.name} ({self.kind}, {default}){': ' + self.doc if self.doc else ''}"


def parameters_of(cls: type) -> tuple[Parameter, ...]:
    """The parameters in the order of the constructor; class variables and computed fields are none."""
    return _parameters(cls)


@cache
def _parameters(cls: Any) -> tuple[Parameter, ...]:
    if not is_dataclass(cls):
        return ()
    hints = typing.get_type_hints(cls)
    said = _said(cls)
    return tuple(Parameter(f.name, hints[f.name], _default(f), said(f.name)) for f in fields(cls) if f.init)


def names_of(cls: type) -> tuple[str, ...]:
    """Only the names."""
    return tuple(f.name for f in fields(cls) if f.init) if is_dataclass(cls) else ()


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _said(cls: Any) -> typing.Callable[[str], str]:
    """What the class and those it inherits from say about a field, nearest first."""
    lines = [_strings_below(base) for base in cls.__mro__ if is_dataclass(base)]
    prose = [inspect.getdoc(base) or "" for base in cls.__mro__ if is_dataclass(base)]

    def found(name: str) -> str:
        for strings in lines:
            if name in strings:
                return strings[name]
        return next((text for doc in prose if (text := _sentences(doc, name))), "")

    return found


def _strings_below(cls: Any) -> dict[str, str]:
    """Field name -> the string written on the line below it; nothing where the source is not at hand."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found = {}
    for field, below in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            value = below.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[field.target.id] = _line(value.value)
    return found


def _sentences(doc: str, name: str) -> str:
    parts = re.split(r"(?<=\.)\s+", _line(doc))
    found = " ".join(part for part in parts if re.search(rf"`{re.escape(name)}\b", part))
    return found.removeprefix(f"`{name}`: ")


def _line(text: str) -> str:
    return " ".join(text.split())


def _words(kind: Any) -> str:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("none" if a is type(None) else _words(a) for a in args)
    if origin is tuple:
        return f"list of {_words(args[0])}" if args else "list"
    if origin is typing.Literal:
        return " | ".join(str(a) for a in args)
    return {bool: "true or false", int: "whole number", float: "number", str: "text"}.get(
        kind, getattr(kind, "__name__", str(kind))
    )


def _shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return ",".join(map(str, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def parse_value(text: str, kind: Any, name: str) -> Any:
    """The value that a command line's text means for a type; refused with what would be understood."""
    for form in _forms(kind):
        try:
            return _read(text.strip(), form)
        except ValueError:
            continue
    raise InputError(f"{name}={text!r} is not understood; {name} is {_words(kind)}")


def _forms(kind: Any) -> Iterable[Any]:
    """The plain types of a union, None first, text last."""
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    kinds = typing.get_args(kind) if union else (kind,)
    order = {type(None): 0, bool: 1, int: 2, float: 3, str: 9}
    return sorted(kinds, key=lambda k: order.get(k, 5))


def _read(text: str, kind: Any) -> Any:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is type(None) and text.lower() in EMPTY:
        return None
    if kind is bool and text.lower() in ("true", "false", "yes", "no"):
        return text.lower() in ("true", "yes")
    if kind in (int, float):
        number = kind(text)
        if number != number:
            raise ValueError(text)
        return number
    if kind is str:
        return text
    if origin is typing.Literal and text in map(str, args):
        return next(a for a in args if str(a) == text)
    if origin is tuple and args:
        return tuple(_read(part.strip(), args[0]) for part in text.split(",") if part.strip())
    raise ValueError(text)
