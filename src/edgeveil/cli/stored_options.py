"""Options of commands that can leave the edges in their files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeveil.cli.common import say
from edgeveil.cli.option_groups import OptionGroup, OwnFiles
from edgeveil.errors import StorageError, UsageError

if TYPE_CHECKING:
    from edgeveil.graph.stored.graph_in_files import StoredGraph

__all__ = ["IN_MEMORY", "StoredOptions"]

IN_MEMORY = 20_000_000


@dataclass(frozen=True, kw_only=True)
class StoredOptions(OptionGroup):
    """When edges stay in parquet files, and who answers questions about them."""

    in_memory: Annotated[
        int, typer.Option(min=0, help="Rows up to which a folder or address of --edges is loaded; more stay in files.")
    ] = IN_MEMORY
    engine: Annotated[str, typer.Option(help="Who reads edges that stay in files: duckdb, spark or spark:MASTER.")] = (
        "duckdb"
    )
    memory: Annotated[str, typer.Option(help="Memory of that engine; what exceeds it goes to --work.")] = "1GB"
    work: Annotated[
        Path | None, typer.Option(help="Private folder for prepared edges, to use them again; default: temporary.")
    ] = None

    @contextmanager
    def opened(
        self, files: OwnFiles, nodes: Path | None, *, name: str | None = None, work: Path | None = None,
        check: Callable[[], None] | None = None,
    ) -> Iterator[StoredGraph | None]:  # fmt: skip
        """The graph whose edges stay in files, or None where the edges are to be loaded.

        `check` refuses what cannot be done with files before the edges are prepared, which may take long.
        """
        from edgeveil.graph.ogb import is_ogb
        from edgeveil.graph.stored.addresses import is_table_folder

        if files.edges is None or not is_table_folder(files.edges) or is_ogb(Path(files.edges)):
            yield None
            return
        if name is not None:
            raise UsageError(f"give either the graph {name!r} or --edges, not both")
        from edgeveil.graph.stored.graph_in_files import number_of_rows, open_graph

        try:
            rows = number_of_rows(files.edges)
            if rows <= self.in_memory:
                yield None
                return
            said = files.tables
            if said.header is not None or said.delimiter is not None:
                raise UsageError("parquet tables have headers and no delimiter: drop --header and --delimiter")
            say(f"edges: {rows:,} rows stay in files (--in-memory {self.in_memory:,}); {self.engine} reads them")
            if check is not None:
                check()
            with open_graph(
                files.edges, files.features, files.labels, nodes=nodes, engine=self.engine, memory=self.memory,
                work=self.work or work, id_column=said.id_column, source=said.source, target=said.target,
                label_column=files.label_column,
            ) as graph:  # fmt: skip
                say(f"edges: from {graph.columns['a']!r} and {graph.columns['b']!r}")
                yield graph
        except StorageError as error:
            raise UsageError(str(error)) from error
