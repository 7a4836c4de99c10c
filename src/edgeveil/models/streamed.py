"""Training from rows that are read block by block: mini-batches for models that read no edges.

Blocks come in a fresh random order in every epoch, a few of them are mixed at a time. Training rows that fit into
`KEPT` bytes are read once and then mixed as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeveil.errors import InputError, TrainingError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.kernels.operand import as_operand
from edgeveil.models.network import Model
from edgeveil.models.objective import CrossEntropy, Objective
from edgeveil.models.settings import TrainSpec
from edgeveil.models.structure import Structure
from edgeveil.models.train import History, Progress, run_epochs

__all__ = ["KEPT", "MIXED", "Labelled", "RowBlocks", "fit_streamed"]

KEPT = 256 << 20
MIXED = 8  # blocks
Mask = NDArray[np.bool_]


class RowBlocks(Protocol):
    """Rows of all nodes in numbered blocks."""

    @property
    def bounds(self) -> Sequence[tuple[int, int]]:
        """First node and end of every block."""
        ...

    def rows(self, number: int) -> NDArray[np.float32]:
        """One block's rows."""
        ...


class Labelled(NamedTuple):
    """Classes of all nodes, and which of them train and judge."""

    y: NDArray[np.int64]
    train: Mask
    val: Mask | None


class _Part:
    """The rows of some nodes, block by block; kept once read if they are few."""

    def __init__(self, blocks: RowBlocks, mask: Mask, y: NDArray[np.int64]) -> None:
        self._blocks, self._mask, self._y = blocks, mask, y
        self.size = int(np.count_nonzero(mask))
        self.numbers = [k for k, (start, stop) in enumerate(blocks.bounds) if mask[start:stop].any()]
        self._kept: dict[int, NDArray[np.float32]] = {}
        self.few = True  # whether all rows are kept; known after the first block

    def read(self, number: int) -> tuple[Tensor, Tensor]:
        """The rows and classes of one block."""
        start, stop = self._blocks.bounds[number]
        mask = self._mask[start:stop]
        x = self._kept.get(number)
        if x is None:
            x = np.ascontiguousarray(self._blocks.rows(number)[mask], np.float32)
            self.few = self.size * x.shape[1] * 4 <= KEPT
            if self.few:
                self._kept[number] = x
        return torch.from_numpy(x), torch.from_numpy(self._y[start:stop][mask])


class _StreamedWork:
    """One run over streamed rows, for the common training loop."""

    def __init__(self, model: Model, blocks: RowBlocks, known: Labelled, spec: TrainSpec, rng: Any) -> None:
        self.model, self.spec, self._rng = model, spec, rng
        self._cross = CrossEntropy(known.y[:0], np.empty(0, np.int64))
        self.objective: Objective = self._cross
        self._train = _Part(blocks, known.train, known.y)
        self._val = None if known.val is None else _Part(blocks, known.val, known.y)
        self._dtype = next(model.parameters()).dtype

    def _logits(self, x: Tensor) -> Tensor:
        empty = sp.csr_matrix((len(x), len(x)), dtype=np.float32)
        return self.model(as_operand(FeatureMatrix.wrap(x.numpy()), self._dtype), Structure(empty))  # type: ignore[no-any-return]

    def steps(self) -> Iterator[Tensor]:
        """Training losses of one epoch, one optimiser step each."""
        order = self._rng.permutation(self._train.numbers)
        self._train.read(int(order[0]))
        at_once = len(order) if self._train.few else MIXED
        for start in range(0, len(order), at_once):
            parts = [self._train.read(int(number)) for number in order[start : start + at_once]]
            x, y = torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])
            for rows in torch.split(torch.randperm(len(x)), self.spec.batch_size or len(x)):
                yield self._cross.loss(self._logits(x[rows]), y[rows])

    def validate(self) -> tuple[float, float] | None:
        """Loss and score on the validation nodes, in evaluation mode."""
        if self._val is None:
            return None
        self.model.eval()
        loss, right = 0.0, 0.0
        with torch.no_grad():
            for number in self._val.numbers:
                x, y = self._val.read(number)
                found = self._cross.measure(self._logits(x), y)
                loss, right = loss + found[0] * len(y), right + found[1] * len(y)
        self.model.train()
        return loss / self._val.size, right / self._val.size


def fit_streamed(
    model: Model, blocks: RowBlocks, known: Labelled, spec: TrainSpec, *, seed: int, progress: Progress | None = None
) -> History:
    """Train in place from streamed rows; same seed, same files, same result."""
    if not model.spec.local:
        raise InputError(f"rows are streamed to models that read no edges; {model.spec.name!r} reads them")
    if not known.train.any():
        raise TrainingError("nothing to learn from: no labelled training node; choose a split with training nodes")
    spec = spec if known.val is not None and known.val.any() else spec.without_validation()
    work = _StreamedWork(model, blocks, known, spec, np.random.default_rng(seed))
    return run_epochs(work, seed=seed, progress=progress)
