"""Exact influence of any differentiable module by forward-mode differentiation.

A feature of v changes only outputs within the module's reach of v. Nodes whose reaches share no asked output can
therefore move together in one derivative, as columns of a sparse Jacobian do (Curtis, Powell & Reid 1974), and the part
of the graph that no asked output can see is left out. The module runs once: what a direction costs afterwards is the
derivative alone (`tangent_map`).
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
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
from edgeveil.models.kernels import threads
from edgeveil.models.kernels.operand import as_operand
from edgeveil.models.module import ModuleModel, as_edges, call_module
from edgeveil.models.network import kprop
from edgeveil.models.reach import reach
from edgeveil.models.structure import Structure

__all__ = ["can_differentiate", "groups", "module_influence", "tangent_map"]

Array = NDArray[Any]
_EQUAL = 1e-9  # largest difference of the two ways to differentiate, as a share of the largest entry
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
    exact = copy.deepcopy(model).double().eval().requires_grad_(False)
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
        order = np.argsort(colours, kind="stable")
        cuts = np.searchsorted(colours[order], np.arange(int(colours.max(initial=-1)) + 2))
        change: Callable[[Tensor], Tensor] | None = None
        for start, stop in itertools.pairwise(cuts):
            direction = self._direction(order[start:stop])[part]
            change = change or tangent_map(answers, base[part], direction)
            found = self._read(change(direction))
            for i in order[start:stop]:
                place = slice(out.indptr[i], out.indptr[i + 1])
                out.data[place] = found[out.indices[place]]
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

    def _direction(self, chosen: Array) -> Tensor:
        """The senders of one colour move together, each by its own step."""
        out = torch.zeros_like(self.x)
        out[torch.from_numpy(self.senders[chosen])] = self.steps[torch.from_numpy(chosen)]
        moved = kprop(out, self.structure, self.model.spec.kprop)
        assert isinstance(moved, Tensor)
        return moved

    def _read(self, change: Tensor) -> Array:
        """Norms over the outputs, or the combination asked for, one per receiver."""
        if self.along is None:
            return np.asarray(change.norm(dim=1))
        return np.asarray(change @ torch.as_tensor(np.asarray(self.along, np.float64)))


def tangent_map(function: Callable[[Tensor], Tensor], at: Tensor, probe: Tensor) -> Callable[[Tensor], Tensor]:
    """v -> J v, the derivative of `function` at a point, for many directions v.

    `torch.func.jvp` runs the function again for each. J^T u is linear in u, and its own derivative with respect to u
    is J: transposing twice keeps what one run left behind and repeats the linear part only. It is used where it agrees
    with jvp along `probe`; operations that can be differentiated only once, or forward only, are left to jvp.
    """

    def forward(direction: Tensor) -> Tensor:
        change: Tensor = torch.func.jvp(function, (at,), (direction,))[1]
        return change

    want = forward(probe)
    try:
        fast = _twice_transposed(function, at)
        off = (fast(probe) - want).abs().max()
    except (RuntimeError, NotImplementedError, InputError):
        return forward
    return fast if off <= _EQUAL * want.abs().max().clamp(min=torch.finfo(want.dtype).tiny) else forward


def _twice_transposed(function: Callable[[Tensor], Tensor], at: Tensor) -> Callable[[Tensor], Tensor]:
    with torch.enable_grad():
        x = at.detach().requires_grad_(True)
        y = function(x)
        u = torch.zeros_like(y, requires_grad=True)
        (pulled,) = torch.autograd.grad(y, x, u, create_graph=True)

    def change(direction: Tensor) -> Tensor:
        (out,) = torch.autograd.grad(pulled, u, direction, retain_graph=True)
        return out.detach()

    return change


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
