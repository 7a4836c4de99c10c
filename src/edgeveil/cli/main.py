"""``edgeveil``: finds the commands in this package and turns errors into one clear sentence."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import edgeveil.cli
from edgeveil.cli.method_options import PluginOption, extend
from edgeveil.errors import EdgeveilError, InputError

__all__ = ["build_app", "main"]

PATHS = """Which edges of a private graph does a GNN give away, and how do you stop it?

You own a graph and must decide what to release:
  edgeveil audit --edges friends.csv --features users.csv --labels classes.csv --out audit
  edgeveil audit --out demo            (no files at hand: a citation graph or its synthetic twin)

You compare methods, or review a claim:
  edgeveil reproduce --list            published figures, ours beside theirs
  edgeveil verify gp-t --epsilon 1     is a claimed epsilon true?

You extend it with an attack, a defence, a model or a dataset:
  edgeveil --plugin my_defence.py audit cora-twin --defence none,mlp,my-defence --epsilon 4

All commands: edgeveil --help. One of them, with an example: edgeveil audit --help."""


class _Interrupted(Exception):
    """Ctrl-C, carried past typer, which would end without a word."""


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise _Interrupted from stop


def _version(show: bool) -> None:
    if show:
        from edgeveil import __version__

        typer.echo(f"edgeveil {__version__}")
        raise typer.Exit


def build_app() -> typer.Typer:
    """The command tree: every module of this package that has a `register` function."""
    app = typer.Typer(
        name="edgeveil",
        cls=_Commands,
        help="Which edges of a private graph does a GNN give away, and how do you stop it?",
        invoke_without_command=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def root(
        context: typer.Context,
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
        ] = False,
        plugin: PluginOption = None,
    ) -> None:
        if context.invoked_subcommand is None:
            typer.echo(PATHS)

    for module in sorted(pkgutil.iter_modules(edgeveil.cli.__path__), key=lambda m: m.name):
        register = getattr(importlib.import_module(f"edgeveil.cli.{module.name}"), "register", None)
        if register is not None:
            register(app)
    extend(app)
    return app


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 failed, 2 bad usage or input."""
    try:
        build_app()()
    except EdgeveilError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, InputError) else 1)
    except (_Interrupted, KeyboardInterrupt):
        print("interrupted: finished work is kept; run the same command again to go on", file=sys.stderr)
        sys.exit(130)
