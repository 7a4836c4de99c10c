"""Exact influence of any differentiable module by forward-mode differentiation.

A feature of v changes only outputs within the module's reach of v. Nodes whose reaches share no asked output can
therefore move together in one derivative, as columns of a sparse Jacobian do (Curtis, Powell & Reid 1974), and the part
of the graph that no asked output can see is left out.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.sparse import k_hop
from edgeveil.models.base import kprop
from edgeveil.models.kernels import threads
from edgeveil.models.kernels.operand import as_operand
from edgeveil.models.module import ModuleModel, as_edges, call_module
from edgeveil.models.reach import reach
from edgeveil.models.structure import Structure

__all__ = ["can_differentiate", "groups", "module_influence"]

Array = NDArray[Any]
LIMIT = 1 << 24  # numbers that the derivatives of one batch may hold (128 MB)
_STEP = 1e-7


def module_influence(
    model: ModuleModel,
    x: FeatureMatrix,
    structure: Structure,
    senders: Array,
    receivers: Array,
    move: Any = None,
    along: Any = None,
) -> sp.csr_matrix:
    """Entry [i, j]: influence of senders[i] on receivers[j]; see `influence.influence` for `move` and `along`."""
    exact = copy.deepcopy(model).double().eval()
    hops = reach(exact)
    with torch.no_grad(), threads.limited(None), threads.flushing():
        dense = as_operand(FeatureMatrix.wrap(x), "float64").dense()
        steps = dense[senders] if move is None else torch.as_tensor(np.asarray(move, np.float64)).reshape(1, -1)
        work = _Work(exact, dense, steps.expand(len(senders), -1), structure, senders, receivers, along)
        return work.matrix(None if hops is None else hops + model.spec.kprop, hops)


@dataclass
class _Work:
    model: ModuleModel
    x: Tensor
    steps: Tensor  # how each sender moves
    structure: Structure
    senders: Array
    receivers: Array
    along: Any

    def matrix(self, total: int | None, hops: int | None) -> sp.csr_matrix:
        """All entries; `total` hops with KProp in front, `hops` of the module alone."""
        heard = self._heard(total)
        colours = groups(heard)
        part = self._part(heard, hops)
        base = kprop(self.x, self.structure, self.model.spec.kprop)
        assert isinstance(base, Tensor)
        index, weight = as_edges(Structure(self.structure.adjacency[part][:, part].tocsr()))
        rows = torch.from_numpy(np.searchsorted(part, self.receivers).clip(max=max(len(part) - 1, 0)))

        def answers(h: Tensor) -> Tensor:
            return call_module(self.model, h, index, weight)[rows]

        out = heard.astype(np.float64)
        count = int(colours.max(initial=-1)) + 1
        size = max(1, LIMIT // max(1, len(part) * (self.x.shape[1] + 64)))
        for at in range(0, count, size):
            chosen = np.flatnonzero((colours >= at) & (colours < at + size))
            moves = self._moves(chosen, colours[chosen] - at, min(size, count - at))
            found = self._read(_derivatives(answers, base[part], moves[:, part]))
            for i in chosen:
                place = slice(out.indptr[i], out.indptr[i + 1])
                out.data[place] = found[colours[i] - at, out.indices[place]]
        out.eliminate_zeros()
        return out

    def _heard(self, hops: int | None) -> sp.csr_matrix:
        """Which receiver may hear which sender. A module may send against an arrow, so arrows do not count."""
        shape = (len(self.senders), len(self.receivers))
        if hops is None:
            return sp.csr_matrix(np.ones(shape, np.int8))
        near = sp.csr_matrix((self.structure.adjacency != 0).astype(np.int32))
        near = ((near + near.T) != 0).astype(np.int32).tocsr()
        n = near.shape[0]
        seen = sp.csr_matrix((np.ones(shape[0], np.int32), self.senders, np.arange(shape[0] + 1)), shape=(shape[0], n))
        for _ in range(hops):
            seen = ((seen + seen @ near) != 0).astype(np.int32).tocsr()
        found = seen[:, self.receivers].tocsr()
        found.sort_indices()
        return found

    def _part(self, heard: sp.csr_matrix, hops: int | None) -> Array:
        """Nodes that the asked outputs depend on; one hop more, for the degrees of the outermost."""
        n = self.structure.num_nodes
        asked = self.receivers[np.unique(heard.indices)]
        if hops is None or not len(asked):
            return np.arange(n)
        a = self.structure.adjacency
        part = k_hop((a + a.T).tocsr(), asked, hops + 1)
        return part if len(part) < 0.9 * n else np.arange(n)

    def _moves(self, chosen: Array, colours: Array, count: int) -> Tensor:
        """One direction per colour: its senders move together, each by its own step."""
        out = torch.zeros(count, *self.x.shape, dtype=torch.float64)
        out[torch.from_numpy(colours), torch.from_numpy(self.senders[chosen])] = self.steps[torch.from_numpy(chosen)]
        if self.model.spec.kprop:
            for direction in out:
                moved = kprop(direction, self.structure, self.model.spec.kprop)
                assert isinstance(moved, Tensor)
                direction.copy_(moved)
        return out

    def _read(self, change: Tensor) -> Array:
        """Norms over the outputs, or the combination asked for, [colours, receivers]."""
        if self.along is None:
            return np.asarray(change.norm(dim=2))
        return np.asarray(change @ torch.as_tensor(np.asarray(self.along, np.float64)))


def _derivatives(function: Any, at: Tensor, moves: Tensor) -> Tensor:
    """Derivatives of `function` at a point along several directions, together where the module's operations allow."""

    def one(direction: Tensor) -> Tensor:
        change: Tensor = torch.func.jvp(function, (at,), (direction,))[1]
        return change

    try:
        return torch.func.vmap(one)(moves)
    except (RuntimeError, InputError):
        return torch.stack([one(direction) for direction in moves])


def groups(heard: sp.csr_matrix) -> NDArray[np.int64]:
    """A colour per row such that rows of one colour share no column; -1 for empty rows. Widest rows first."""
    width = np.diff(heard.indptr)
    used = np.zeros((0, heard.shape[1]), bool)
    out = np.full(heard.shape[0], -1, np.int64)
    for i in np.argsort(-width, kind="stable"):
        columns = heard.indices[heard.indptr[i] : heard.indptr[i + 1]]
        if not len(columns):
            break
        free = np.flatnonzero(~used[:, columns].any(axis=1))
        colour = int(free[0]) if len(free) else len(used)
        if colour == len(used):
            used = np.concatenate([used, np.zeros((max(1, len(used)), heard.shape[1]), bool)])
        used[colour, columns] = True
        out[i] = colour
    return out


def can_differentiate(model: ModuleModel) -> bool:
    """Whether a module answers the same twice, and its derivative is its answers' on a small random graph."""
    exact = copy.deepcopy(model).double().eval()
    rng = np.random.default_rng(0)
    pairs = torch.from_numpy(rng.integers(0, 8, (2, 12)))
    index = torch.cat([pairs, pairs.flip(0)], dim=1)
    x, step = (torch.from_numpy(rng.normal(size=(8, model.num_features))) for _ in range(2))

    def answers(h: Tensor) -> Tensor:
        return call_module(exact, h, index, None)

    try:
        with torch.no_grad():
            base = answers(x)
            if not torch.equal(base, answers(x)):
                return False
            change = torch.func.jvp(answers, (x,), (step,))[1]
            asked = (answers(x + _STEP * step) - base) / _STEP
    except (RuntimeError, NotImplementedError, ValueError):
        return False
    return bool((change - asked).abs().max() <= 1e-4 * (1.0 + asked.abs().max()))
