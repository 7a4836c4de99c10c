"""Options that several commands share, declared once: a command takes a group as one parameter.

On the command line every field of a group is an option of its own, in the place of the group.
"""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_type_hints

from edgeveil.cli.common import (
    DataRoot,
    Delimiter,
    Edges,
    EdgeSetName,
    ExecutorName,
    Features,
    GraphName,
    Header,
    IdColumn,
    Inference,
    Json,
    LabelColumn,
    Labels,
    LedgerFile,
    ModelName,
    NodeFile,
    NodesOption,
    PresetName,
    ScalingName,
    SeedOption,
    Source,
    SplitName,
    SplitSeed,
    Target,
    TenantName,
    Workers,
    count_and_file,
    load_graph,
    say,
)

if TYPE_CHECKING:
    from edgeveil.graph.graph import Graph

__all__ = ["GraphOptions", "LedgerOptions", "OwnFiles", "StudyOptions", "TableOptions", "ungrouped"]


class OptionGroup:
    """A frozen dataclass whose fields are options, or groups of them."""

    @classmethod
    def options(cls) -> list[inspect.Parameter]:
        """The options of this group and of the groups in it, as parameters of a command."""
        found: list[inspect.Parameter] = []
        for name, (kind, default) in _fields(cls).items():
            inner = _group(kind)
            if inner is not None:
                found += inner.options()
            else:
                found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
        return found

    @classmethod
    def take(cls, given: dict[str, Any]) -> Self:
        """The group made of what was given; its options are taken out."""
        values = {}
        for name, (kind, _) in _fields(cls).items():
            inner = _group(kind)
            values[name] = given.pop(name) if inner is None else inner.take(given)
        return cls(**values)


def _fields(group: type[OptionGroup]) -> dict[str, tuple[Any, Any]]:
    hints = get_type_hints(group, include_extras=True)
    unset = inspect.Parameter.empty
    return {f.name: (hints[f.name], unset if f.default is MISSING else f.default) for f in fields(group)}  # type: ignore[arg-type]


def _group(kind: Any) -> type[OptionGroup] | None:
    return kind if isinstance(kind, type) and issubclass(kind, OptionGroup) else None


def ungrouped(command: Callable[..., Any], *more: inspect.Parameter) -> Callable[..., Any]:
    """The command with the options of its groups in their places, and with `more` options that it does not see."""
    signature = inspect.signature(command, eval_str=True)
    groups = {p.name: group for p in signature.parameters.values() if (group := _group(p.annotation)) is not None}

    @functools.wraps(command)
    def wrapper(**given: Any) -> Any:
        for extra in more:
            given.pop(extra.name, None)
        made = {name: group.take(given) for name, group in groups.items()}
        return command(**given, **made)

    flat: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        own = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        flat += groups[parameter.name].options() if parameter.name in groups else [own]
    flat += more
    wrapper.__signature__ = signature.replace(parameters=flat)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in flat}
    return wrapper


def as_words(options: Mapping[str, Any]) -> Iterable[str]:
    """Options as one would type them; None is not typed."""
    for name, value in options.items():
        if value is not None:
            yield from (f"--{name.replace('_', '-')}", str(value))


@dataclass(frozen=True, kw_only=True)
class TableOptions(OptionGroup):
    """How own tables are read."""

    header: Header = None
    id_column: IdColumn = None
    source: Source = None
    target: Target = None
    delimiter: Delimiter = None

    @property
    def columns(self) -> dict[str, str | None]:
        """What is said of columns."""
        return {
            "id_column": self.id_column, "source": self.source, "target": self.target, "delimiter": self.delimiter,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class OwnFiles(OptionGroup):
    """A graph of the user's own, file by file; `nodes` comes from elsewhere where ``--nodes`` is also a number."""

    edges: Edges = None
    features: Features = None
    labels: Labels = None
    tables: TableOptions
    label_column: LabelColumn = None

    def load(self, name: str | None, nodes: Path | None = None, **options: Any) -> Graph:
        """The graph that these files or `name` mean; `options` are those of `load_graph`."""
        columns = {**self.tables.columns, "label_column": self.label_column}
        return load_graph(
            name, edges=self.edges, features=self.features, labels=self.labels, nodes=nodes,
            header=self.tables.header, columns=columns, **options,
        )  # fmt: skip

    def words(self) -> list[str]:
        """The options as typed."""
        files = {"edges": self.edges, "features": self.features, "labels": self.labels}
        said = [] if self.tables.header is None else ["--header" if self.tables.header else "--no-header"]
        return [*as_words({**files, **self.tables.columns, "label_column": self.label_column}), *said]


@dataclass(frozen=True, kw_only=True)
class GraphOptions(OptionGroup):
    """The graph of commands that take one: a dataset's name or own files."""

    graph: GraphName = None
    files: OwnFiles
    nodes: NodeFile = None
    data_root: DataRoot = None

    def load(self, **options: Any) -> Graph:
        """The graph that is meant."""
        return self.files.load(self.graph, self.nodes, data_root=self.data_root, **options)


@dataclass(frozen=True, kw_only=True)
class LedgerOptions(OptionGroup):
    """Where a spend is recorded, and as whose."""

    ledger: LedgerFile = None
    edge_set: EdgeSetName = None
    tenant: TenantName = "owner"

    def asked(self) -> dict[str, Any]:
        """As `defend`, `renew` and `record` take it."""
        return {"ledger": self.ledger, "edge_set": self.edge_set, "tenant": self.tenant}


@dataclass(frozen=True, kw_only=True)
class StudyOptions(OptionGroup):
    """What audits and advice ask alike: the graph, how models are trained on it, how runs are done."""

    graph: GraphName = None
    model: ModelName = "gcn"
    seed: SeedOption = 0
    nodes: NodesOption = None
    preset: PresetName = "default"
    scaling: ScalingName = "auto"
    inference: Inference = None
    files: OwnFiles
    split: SplitName = None
    split_seed: SplitSeed = 0
    data_root: DataRoot = None
    json_file: Json = None
    executor: ExecutorName = "processes"
    workers: Workers = None

    @property
    def count(self) -> int:
        """How many nodes are attacked."""
        return count_and_file(self.nodes)[0]

    def asked_nodes(self) -> dict[str, Any]:
        """That number where it was asked for; audits know a better one than the default."""
        return {"nodes": self.count} if any(text.isdecimal() for text in self.nodes or ()) else {}

    @property
    def node_file(self) -> Path | None:
        """The file that lists all nodes."""
        return count_and_file(self.nodes)[1]

    @functools.cached_property
    def chosen(self) -> str | None:
        """The graph's name, None for own files: real Cora if none is named and any source has it, else its twin."""
        if self.graph or self.files.edges or self.node_file:
            return self.graph
        from edgeveil.errors import DatasetUnavailable
        from edgeveil.graph.datasets import load

        try:
            load("cora", data_root=self.data_root)
        except DatasetUnavailable:
            say("real Cora is not available here, so the synthetic twin stands in for it")
            return "cora-twin"
        return "cora"

    def load(self) -> Graph:
        """The private graph."""
        return self.files.load(
            self.chosen, self.node_file, split=self.split, split_seed=self.split_seed, data_root=self.data_root
        )

    def other(self, name: str | None) -> Graph | None:
        """Another graph that an option names."""
        return None if name is None else load_graph(name, data_root=self.data_root)

    def training(self) -> dict[str, Any]:
        """How runs are trained and done, as `ev.audit` and `ev.advise` take it."""
        return {
            "model": self.model, "seed": self.seed, "preset": self.preset, "scaling": self.scaling,
            "split_seed": self.split_seed, "executor": self.executor, "workers": self.workers,
        }  # fmt: skip

    def words(self) -> str:
        """How the next command names the same graph, read and split the same way."""
        more = {
            "nodes": self.node_file, "split": self.split, "split_seed": self.split_seed or None,
            "scaling": None if self.scaling == "auto" else self.scaling,
            "preset": None if self.preset == "default" else self.preset, "data_root": self.data_root,
        }  # fmt: skip
        return shlex.join([*([self.chosen] if self.chosen else []), *self.files.words(), *as_words(more)])
