"""Auditing a model that somebody else trained: a saved release, a live server or a Python function."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeveil.cli.common import open_release, say
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.graph.graph import Graph

__all__ = ["check_order", "open_callable", "open_model"]


def open_model(
    truth: Graph,
    release: Path | None,
    url: str | None,
    key: str | None,
    function: str | None,
    model_features: Path | None = None,
) -> tuple[Any, str]:
    """The release or target that the options name, and what to call it; None where they name none."""
    if sum(option is not None for option in (release, url, function)) > 1:
        raise UsageError("give one of --release, --url and --callable")
    if release is not None:
        return open_release(release), str(release)
    if url is not None:
        from edgeveil.cli.attack_command import read_features
        from edgeveil.release.remote import HttpTarget

        if model_features is None:
            say("no --model-features: only attacks that need no features are run against the server")
        known = None if model_features is None else read_features(model_features)
        return HttpTarget(url, key=key, features=known), url
    return (None, "") if function is None else (open_callable(function, truth), function)


def check_order(graph: Graph) -> None:
    """Names alone do not say which node is the model's number 0; the files the model was made with do."""
    named = graph.node_ids is not None and not all(str(node).isdecimal() for node in graph.node_ids)
    if named and graph.x is None:
        raise UsageError(
            f"{graph.name} names its nodes, but not in which order the model numbers them; add the --features file "
            "that the model was made with"
        )


def open_callable(path: str, graph: Graph) -> Any:
    """A target around ``pkg.module:name``, a function from the full feature matrix to one row of logits per node."""
    from edgeveil.release.target import Target

    module, _, name = path.partition(":")
    if not name:
        raise UsageError(f"--callable wants pkg.module:name, got {path!r}")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a file in the current folder, as with python -m
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"cannot find {path!r}: {error}") from error
    if graph.x is None:
        raise UsageError(f"{graph.name} has no features, so there is nothing to ask {path!r} with")
    say(f"auditing {path}: it gets the graph's features as they stand, one row per node")
    return Target.from_callable(function, features=graph.x)
