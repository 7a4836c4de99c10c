"""A stored graph, one release of it per process: what the tests of interruption start and kill."""

from __future__ import annotations

import sys
from pathlib import Path

from edgeveil.defences.stored.defend_stored import defend_stored
from edgeveil.graph.splits import apply_split
from edgeveil.graph.stored.graph_in_files import open_graph
from edgeveil.models.settings import TrainSpec

FEW = TrainSpec(epochs=3, batch_size=256, keep="best-val-loss")


def main(folder: Path, engine: str) -> None:
    """Make the release, or go on with it."""
    with open_graph(
        folder / "edges",
        folder / "nodes.parquet",
        folder / "labels.parquet",
        name="graph",
        work=folder / "work",
        engine=engine,
        threads=1,
    ) as graph:
        graph = graph.with_nodes(apply_split(graph.nodes, "50:25:25", 0))
        with defend_stored(graph, "lpgnet-2", epsilon=2.0, train=FEW, ledger=str(folder / "ledger.sqlite")) as release:
            release.save(folder / "release")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
