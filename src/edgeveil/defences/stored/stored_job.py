"""What a defence gets when the edges stay in files: public rows in blocks, exact counts on request, one journal."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.stored.journal import Journal, write_rows
from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.scaling import Scaling
from edgeveil.graph.stored.graph_in_files import StoredGraph
from edgeveil.graph.stored.node_table import NodeTable
from edgeveil.models.assemble import build, load_arrays, state_arrays
from edgeveil.models.network import Model
from edgeveil.models.settings import TrainSpec
from edgeveil.models.spec import ModelSpec
from edgeveil.models.streamed import Labelled, RowBlocks, fit_streamed
from edgeveil.privacy.guarantee import SECURE, SEEDED
from edgeveil.seeds import Seed, as_generator, derive

__all__ = ["STREAMED", "MadeRows", "StoredJob"]

STREAMED = TrainSpec(lr=0.01, weight_decay=0.0, epochs=10, batch_size=4096, keep="best-val-loss")
FITTED = 200_000  # training rows that the scaling is learnt from
CELLS = 1 << 20  # counts that get their noise at a time
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class MadeRows:
    """Rows computed from the scaled features of a block: what one model of a stack reads."""

    job: StoredJob
    make: Callable[[int, NDArray[np.float64]], Array]  # (first node, scaled features) -> rows

    @property
    def bounds(self) -> Sequence[tuple[int, int]]:
        return self.job.table.bounds

    def rows(self, number: int) -> NDArray[np.float32]:
        """One block's rows."""
        block = self.job.table.read(number)
        return np.asarray(self.make(block.start, self.job.scaled(block.x)), np.float32)


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredJob:
    """Train on the public rows, ask the stored edges for counts, answer for all nodes (transductive)."""

    graph: StoredGraph
    journal: Journal
    train: TrainSpec = STREAMED
    scaling: str = "auto"
    seed: int | None = None
    progress: Callable[..., None] | None = None

    @cached_property
    def table(self) -> NodeTable:
        """The feature rows of all nodes."""
        if self.graph.table is None:
            raise InputError(f"{self.graph.name} has no features, and every model here needs them: --features")
        return self.graph.table

    @cached_property
    def known(self) -> Labelled:
        """Classes, training and validation nodes."""
        nodes = self.graph.nodes
        if nodes.y is None or nodes.multilabel:
            raise InputError(f"{nodes.name} needs one class per node to train from files: --labels")
        labelled = nodes.y >= 0
        masks = nodes.masks
        train = labelled if masks is None else masks.train & labelled
        val = None if masks is None or not (masks.val & labelled).any() else masks.val & labelled
        return Labelled(nodes.y, train, val)

    def check(self) -> None:
        """Read all labels and rows once: what is wrong with them is said before anything is charged."""
        assert self.known is not None
        for _ in self.table.blocks():
            pass

    @property
    def num_classes(self) -> int:
        return self.graph.nodes.num_classes

    @property
    def randomness(self) -> str:
        return SECURE if self.seed is None else SEEDED

    @cached_property
    def scaler(self) -> Scaling:
        """The scaling, learnt from the first training nodes in node order."""
        nodes = np.flatnonzero(self.known.train)[:FITTED]
        return Scaling.fit(self.scaling, self.table.rows(nodes))

    def scaled(self, x: Array) -> NDArray[np.float64]:
        """Rows in model space."""
        return self.scaler.apply(x).toarray()

    def model_seed(self, *path: str | int) -> int:
        """Seed of weights and dropout, drawn once for a release."""
        if self.seed is not None:
            return derive(self.seed, "model", *path)
        return self.journal.number("seed-" + "-".join(map(str, path)), lambda: secrets.randbits(63))

    def noise_seed(self, *path: str | int) -> Seed:
        """Source of one question's noise: the operating system, or one seeded stream for all its blocks."""
        return None if self.seed is None else as_generator(derive(self.seed, "noise", *path))

    def fit(self, name: str, spec: ModelSpec, width: int, rows: RowBlocks) -> Model:
        """A trained model by that name: from the journal, or trained now."""
        model = build(spec, width, self.num_classes, seed=self.model_seed(name))

        def train() -> dict[str, Array]:
            fit_streamed(
                model, rows, self.known, self.train, seed=self.model_seed(name, "training"), progress=self.progress
            )
            return state_arrays(model)

        load_arrays(model, self.journal.model(name, train))
        return model.eval()

    def classes(self, logits: Callable[[int, NDArray[np.float64]], Array]) -> NDArray[np.int32]:
        """The class that a model gives to every node."""
        out = np.empty(self.graph.num_nodes, np.int32)
        for block in self.table.blocks():
            out[block.start : block.start + len(block.x)] = logits(block.start, self.scaled(block.x)).argmax(axis=1)
        return out

    def noisy_counts(self, name: str, clusters: NDArray[np.int32], noisy: Callable[[Array], Array]) -> Array:
        """The one noisy answer to a count query; `noisy` adds the noise to a block of exact counts."""
        shape = (self.graph.num_nodes, self.num_classes)

        def ask() -> Iterator[Array]:
            counts = self.graph.cluster_degrees(clusters, self.num_classes)
            self.graph.engine.rest()
            step = max(1, CELLS // self.num_classes)
            for at in range(0, shape[0], step):
                yield noisy(counts[at : at + step].astype(np.int64))

        return self.journal.answer(name, clusters, shape, ask)

    def stored_features(self) -> FeatureMatrix:
        """All rows in model space, mapped from a file beside the journal."""
        path, shape = self.journal.folder / "features.npy", (self.graph.num_nodes, self.table.num_features)
        write_rows(path, shape, (self.scaled(block.x) for block in self.table.blocks()))
        return FeatureMatrix(np.load(path, mmap_mode="r"))
