"""Heavy-tailed graphs of any size with features and labels, written to parquet block by block.

Expected degrees follow a power law (Chung & Lu 2002): the node of rank r is an end with probability proportional to
r^(-1/(exponent - 1)). A share of the edges is redrawn inside the class of its first end. Rows are as owners have them:
unordered, some twice, some in both directions, some loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.seeds import stream

__all__ = ["HeavyTailed"]

BLOCK = 1 << 20
FILE = 16  # blocks per file
ROWS = 1 << 16
Int = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class HeavyTailed:
    """`edges` rows over `nodes` nodes; the same seed gives the same files."""

    nodes: int
    edges: int
    features: int = 16
    classes: int = 8
    exponent: float = 2.5  # of the degree distribution
    homophily: float = 0.6  # share of edges drawn inside a class, beside those that fall there anyway
    signal: float = 0.35  # distance of a class's centre from the origin, in standard deviations of one feature
    seed: int = 0

    def __post_init__(self) -> None:
        if self.nodes < 2 * self.classes or self.edges < 1 or self.features < 1:
            raise InputError(f"a graph needs edges, features and two nodes per class, got {self}")
        if not self.exponent > 2 or not 0 <= self.homophily <= 1:
            raise InputError(f"exponent must be > 2 and homophily a share, got {self.exponent} and {self.homophily}")

    def labels(self, nodes: Int) -> Int:
        """The class of a node is its number modulo the number of classes."""
        return nodes % self.classes

    def edge_blocks(self) -> Iterator[tuple[Int, Int]]:
        """The two ends of all rows, block by block."""
        for number, at in enumerate(range(0, self.edges, BLOCK)):
            rng = stream(self.seed, "edges", number)
            size = min(BLOCK, self.edges - at)
            u, v = self._nodes(rng, size), self._nodes(rng, size)
            same = rng.random(size) < self.homophily
            moved = v - v % self.classes + u % self.classes
            v = np.where(same & (moved < self.nodes), moved, v)
            yield u, v

    def _nodes(self, rng: np.random.Generator, size: int) -> Int:
        """Ends: a rank by the power law, scattered over the node numbers by a fixed permutation."""
        power = 1 / (1 - 1 / (self.exponent - 1))
        ranks = np.minimum((self.nodes * rng.random(size) ** power).astype(np.int64), self.nodes - 1)
        step = next(k for k in range(int(self.nodes * 0.618) | 1, 2 * self.nodes, 2) if math.gcd(k, self.nodes) == 1)
        return ranks * step % self.nodes

    def feature_blocks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Rows of all nodes, block by block: the class's centre plus standard normal noise."""
        centres = stream(self.seed, "centres").normal(size=(self.classes, self.features)) * self.signal
        for number, at in enumerate(range(0, self.nodes, ROWS)):
            rng = stream(self.seed, "features", number)
            nodes = np.arange(at, min(at + ROWS, self.nodes))
            noise = rng.standard_normal((len(nodes), self.features), np.float32)
            yield at, (noise + centres[self.labels(nodes)]).astype(np.float32)

    def write(self, folder: Path) -> tuple[Path, Path, Path]:
        """``edges/`` (partitioned), ``nodes.parquet`` (id, features) and ``labels.parquet`` (id, label) in `folder`."""
        paths = folder / "edges", folder / "nodes.parquet", folder / "labels.parquet"
        paths[0].mkdir(parents=True, exist_ok=True)
        self._write_edges(paths[0])
        names = [f"f{at}" for at in range(self.features)]
        columns = pa.schema([("id", pa.int64()), *((name, pa.float32()) for name in names)])
        classes = pa.schema([("id", pa.int64()), ("label", pa.int64())])
        with pq.ParquetWriter(paths[1], columns) as rows, pq.ParquetWriter(paths[2], classes) as labels:
            for at, x in self.feature_blocks():
                ids = np.arange(at, at + len(x))
                parts = [ids, *(np.ascontiguousarray(x[:, k]) for k in range(self.features))]
                rows.write_table(pa.table(parts, schema=columns), row_group_size=ROWS)
                labels.write_table(pa.table([ids, self.labels(ids)], schema=classes))
        return paths

    def _write_edges(self, folder: Path) -> None:
        schema, writer = pa.schema([("source", pa.int64()), ("target", pa.int64())]), None
        for number, (u, v) in enumerate(self.edge_blocks()):
            if number % FILE == 0:
                if writer is not None:
                    writer.close()
                writer = pq.ParquetWriter(folder / f"part-{number // FILE:05d}.parquet", schema)
            assert writer is not None
            writer.write_table(pa.table([u, v], schema=schema))
        if writer is not None:
            writer.close()
