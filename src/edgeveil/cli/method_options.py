"""``--plugin`` and ``--set``: methods from a file, and parameters of methods, typed by the fields they name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand

from edgeveil.cli.common import words
from edgeveil.cli.option_groups import ungrouped
from edgeveil.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from edgeveil.parameters import Parameter
    from edgeveil.registry import Registry

__all__ = ["PluginOption", "SetOption", "describe_parameters", "extend", "named", "settings"]

Params = dict[str, dict[str, Any]]
OWN_OPTIONS = ("epsilon",)  # a defence's epsilon has an option of its own everywhere

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a parameter (listed below) of the chosen defences and attacks that have it; repeat it. Where several "
        "have it and one is meant: METHOD.NAME=VALUE, defence.NAME=VALUE or attack.NAME=VALUE.",
    ),
]


def named(text: str | None, use: str = "audited") -> list[str]:
    """The defences that an option names; where it is left out, those that declare themselves for this use."""
    from edgeveil.defences.defence import DEFENCES

    return words(text) if text is not None else list(DEFENCES.ranked(use))


def settings(given: Iterable[str] | None, defences: Sequence[str] = (), attacks: Sequence[str] = ()) -> Params:
    """What each chosen method is given, by its name. An unknown or ambiguous name is refused with the real ones."""
    chosen = _chosen(defences, attacks)
    out: Params = {}
    for text in given or ():
        whole, found, value = text.partition("=")
        prefix, _, last = whole.strip().rpartition(".")
        name = last.strip().replace("-", "_")
        if not found or not name:
            raise UsageError(f"--set wants NAME=VALUE, got {text!r}")
        for method, parameter in _meant(prefix, name, chosen):
            out.setdefault(method, {})[name] = _value(value, parameter)
    return out


def _chosen(defences: Sequence[str], attacks: Sequence[str]) -> dict[str, tuple[str, Mapping[str, Parameter]]]:
    """Method -> its kind and its parameters."""
    found: dict[str, tuple[str, Mapping[str, Parameter]]] = {}
    for kind, names, registry in _families(defences, attacks):
        for name in names:
            own = {p.name: p for p in registry.parameters(name) if p.name not in OWN_OPTIONS}
            found[name] = (kind, own)
    return found


def _families(defences: Sequence[str], attacks: Sequence[str]) -> list[tuple[str, Sequence[str], Registry[Any]]]:
    families: list[tuple[str, Sequence[str], Registry[Any]]] = []
    if defences:
        from edgeveil.defences.defence import DEFENCES

        families.append(("defence", defences, DEFENCES))
    if attacks:
        from edgeveil.attacks.attack import ATTACKS

        families.append(("attack", attacks, ATTACKS))
    return families


def _meant(
    prefix: str, name: str, chosen: Mapping[str, tuple[str, Mapping[str, Parameter]]]
) -> list[tuple[str, Parameter]]:
    """The methods that a setting is for."""
    from edgeveil.registry import canonical

    where = canonical(prefix)
    among = {m: v for m, v in chosen.items() if not prefix or where in (canonical(m), v[0])}
    if not among:
        raise UnknownNameError("method in --set", prefix, [*chosen, *{kind for kind, _ in chosen.values()}])
    hits = [(m, kind, own[name]) for m, (kind, own) in among.items() if name in own]
    if not hits:
        known = sorted({p for _, own in among.values() for p in own})
        raise UnknownNameError(f"parameter of {' or '.join(among)}", name, known)
    if len({kind for _, kind, _ in hits}) > 1:
        raise UsageError(
            f"--set {name}=: both a defence and an attack have it ({', '.join(m for m, _, _ in hits)}); write "
            f"defence.{name}=VALUE or attack.{name}=VALUE"
        )
    return [(m, parameter) for m, _, parameter in hits]


def _value(text: str, parameter: Parameter) -> Any:
    from edgeveil.parameters import parse_value

    return parse_value(text, parameter.type, parameter.name)


def describe_parameters(kinds: Sequence[str]) -> str:
    """Every registered method of these kinds with its parameters, their types, defaults and meanings."""
    from edgeveil.attacks.attack import ATTACKS
    from edgeveil.defences.defence import DEFENCES

    lines = []
    for kind, registry in (("defence", DEFENCES), ("attack", ATTACKS)):
        if kind not in kinds:
            continue
        if tried := registry.ranked("audited"):
            lines.append(f"\nAn audit tries by default: {', '.join(tried)}")
        lines.append(f"\nParameters of {kind}s (--set NAME=VALUE):\n")
        for name in registry.names():
            own = [p for p in registry.parameters(name) if p.name not in OWN_OPTIONS]
            lines += [f"  {name}", *(f"    {parameter}" for parameter in own)] if own else []
    return "\n".join(lines) + "\n"


def _load(files: list[Path] | None) -> None:
    from edgeveil.plugins import load_plugin

    for file in files or ():
        load_plugin(file)


PluginOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        is_eager=True,
        callback=_load,
        help="Python file whose attacks, defences, models and predictors this command knows; repeat it.",
    ),
]
PLUGIN = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=PluginOption)


def extend(app: typer.Typer) -> None:
    """Give every command, and every command below it, ``--plugin``; those with ``--set`` list what can be set."""
    for info in app.registered_commands:
        assert info.callback is not None
        named = set(inspect.signature(info.callback).parameters)
        if "set_" in named:
            both = {"defence", "attack"}
            kinds = both if "plan" in named else both & named | ({"attack"} if "attacks" in named else set())
            info.cls = type("Listing", (_Listing,), {"kinds": tuple(sorted(kinds))})
        info.callback = ungrouped(info.callback, PLUGIN)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            extend(group.typer_instance)


class _Listing(TyperCommand):
    """A command whose help ends with the parameters that ``--set`` knows."""

    kinds: ClassVar[tuple[str, ...]] = ()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        formatter.write(describe_parameters(self.kinds))
