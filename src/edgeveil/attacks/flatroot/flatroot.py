"""The attack: which form, which questions, and what the decoded graph says about the pairs that were asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.attack import ATTACKS, Attack, Scored
from edgeveil.attacks.flatroot.choose import ask
from edgeveil.attacks.flatroot.exact import Seen, see
from edgeveil.attacks.flatroot.forms import Form, form_of
from edgeveil.errors import InputError, UnknownNameError
from edgeveil.release.target import AttackerView, Target
from edgeveil.seeds import stream

__all__ = ["FlatRoot"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
DENSE = 60
MODES = ("auto", "exact", "query")
LOCAL = (
    "this model's answers about a node depend on no other node's features at query time (MLP, stored statistics), so "
    "flat questions show no edge. That is not evidence of privacy"
)
UNKNOWN = "flat answers of this model ({}) are no power of one matrix of the graph that flatroot can decode"


@ATTACKS.register("flatroot")
@dataclass(frozen=True, kw_only=True)
class FlatRoot(Attack):
    """The stored graph from answers on constant features, with a certificate.

    `mode`: ``query`` asks a black box as few questions as certainty needs, at most `queries`; ``exact`` uses the
    derivatives of a model at hand; ``auto`` prefers exact. `norm`, `layers`, `own` describe the model where its owner
    does not (own: layers also read the node itself); without any description the usual graph convolutions are tried.
    `limit`: the largest feature value the target accepts.
    """

    mode: str = "auto"
    queries: int | None = None
    norm: str | None = None
    layers: int | None = None
    own: bool | None = None
    limit: float | None = None

    reference: ClassVar[str] = "this package; flat-feature form of Wu et al., LinkTeller, IEEE S&P 2022"
    strength: ClassVar[int] = 4
    assumes: ClassVar[str] = "sets every node's features, sees graded answers and knows the model's form"
    needs: ClassVar[frozenset[str]] = frozenset({"answers", "graded answers"})
    whole: ClassVar[bool] = True
    saves_queries: ClassVar[bool] = True

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """Recover the whole graph, then report the view's pairs."""
        mode = self._mode(target, view)
        facts: dict[str, Any] = {"mode": mode}
        access: Any = "white-box" if mode == "exact" else "black-box"
        form = self._form(target)
        if form is None and target.architecture:
            name = target.architecture.get("name")
            note = LOCAL if name == "mlp" else UNKNOWN.format(name)
            return _report(None, view, access, facts, note)
        if form is None and mode == "exact":
            raise InputError("nothing is said about the model's form; give norm= and layers=, or use mode='query'")
        width = _width(target, view)
        rng = stream(seed, "attack", "flatroot")
        if mode == "exact" and form is not None:
            seen = see(target, form, width, rng)
        else:
            seen = ask(target, form, width, rng, self.queries, self.limit)
        if form is not None:
            facts |= {"norm": form.norm, "layers": form.layers, "own": form.own}
        return _report(seen, view, access, facts, seen.decoded.note)

    def idle(self, target: Target) -> str:
        """Only models of a known form, on a stored graph that is sparse enough to decode in seconds."""
        if self._form(target) is None:
            return "the model's form is not one that flatroot decodes"
        if target.stored_graph is not None and target.stored_graph().nnz > DENSE * target.num_nodes:
            return f"the stored graph has more than {DENSE} neighbours a node: decoding would take minutes"
        return "" if target.derivative is not None else "it would be asked dozens of questions; name it to do so"

    def _mode(self, target: Target, view: AttackerView) -> str:
        if self.mode not in MODES:
            raise UnknownNameError("mode of flatroot", self.mode, MODES)
        if self.queries is not None and self.queries < 2:
            raise InputError(f"queries must be at least 2, got {self.queries!r}")
        if self.limit is not None and not self.limit > 0:
            raise InputError(f"limit must be a positive feature value, got {self.limit!r}")
        if view.controlled_features is not None:
            raise InputError("flatroot sets whole feature rows; drop controlled_features=, or use linkteller")
        if self.mode == "exact" and target.derivative is None:
            raise InputError("this target offers no derivatives (it is a black box); use mode='query'")
        if self.mode == "auto":
            asks = self.queries is not None or self.limit is not None or self._form(target) is None
            return "query" if asks or target.derivative is None else "exact"
        return self.mode

    def _form(self, target: Target) -> Form | None:
        public = form_of(target.architecture)
        if self.norm is None and self.layers is None and self.own is None:
            return public
        base = public or Form()  # the usual GCN, where nothing else is said
        return Form(
            self.norm or base.norm,
            self.layers or base.layers,
            base.own if self.own is None else self.own,
            base.attends,
        )


def _width(target: Target, view: AttackerView) -> int:
    known = target.num_features
    if known is None and view.features is not None:
        known = int(view.features.shape[1])
    if known is None:
        raise InputError("flatroot must know how many features a row has; pass features= or a target that says it")
    return known


def _report(seen: Seen | None, view: AttackerView, access: Any, facts: Any, note: str) -> Scored:
    """Scores: 1 for asserted edges, probabilities where open, 0 elsewhere; without a decoded graph, the responses."""
    n = int(view.nodes.max(initial=0)) + 1 if seen is None else seen.matrix.shape[0]
    notes = (note,) if note else ()
    empty = np.empty((2, 0), np.int64)
    if seen is None:
        return _scored(sp.csr_matrix((n, n)), view, access, facts, notes, empty, empty, np.empty(0), False)
    d = seen.decoded
    if d.consistent or d.edges.size or d.open.size:
        pairs = np.concatenate([d.edges, d.open], axis=1)
        value = np.r_[np.ones(d.edges.shape[1]), np.maximum(d.probability, 1e-9)]
        matrix = sp.csr_matrix((value, (pairs[0], pairs[1])), shape=(n, n))
    else:
        both = sp.csr_matrix(seen.matrix + seen.matrix.T)
        size = np.sqrt(np.maximum(both.diagonal(), 1e-3 * max(float(both.diagonal().max(initial=0.0)), 1e-300)))
        matrix = sp.triu(sp.diags(1 / size) @ both @ sp.diags(1 / size), 1).tocsr()  # entries beside the nodes' own
        matrix.data = np.maximum(matrix.data, 0.0) / max(float(abs(matrix).max()), 1e-300)
        matrix.eliminate_zeros()
    return _scored(matrix, view, access, facts, notes, d.edges, d.open, d.probability, d.certified)


def _scored(
    matrix: Any,
    view: AttackerView,
    access: Any,
    facts: Any,
    notes: tuple[str, ...],
    edges: Int,
    undecided: Int,
    probability: Float,
    certified: bool,
) -> Scored:
    """Cut everything to the view's pairs; `matrix` is upper triangular."""
    mine = np.zeros(matrix.shape[0], dtype=bool)
    mine[view.nodes] = True
    kept, still = (mine[p[0]] & mine[p[1]] for p in (edges, undecided))
    common: Any = {
        "access": access, "facts": facts, "notes": notes, "found": edges[:, kept], "certified": certified,
        "undecided": undecided[:, still], "probability": probability[still],
    }  # fmt: skip
    if view.whole_graph:
        listed = matrix.tocoo()
        keep = mine[listed.row] & mine[listed.col]
        pairs = np.stack([listed.row[keep], listed.col[keep]]).astype(np.int64)
        order = np.lexsort((pairs[1], pairs[0]))
        count = len(view.nodes)
        unlisted = count * (count - 1) // 2 - pairs.shape[1]
        return Scored(listed.data[keep][order], pairs[:, order], unlisted=unlisted, **common)
    i, j = view.pair_positions()
    u, v = np.sort(np.stack([view.nodes[i], view.nodes[j]]), axis=0)
    scores = np.asarray(matrix.tocsr()[u, v], np.float64).ravel() if len(u) else np.empty(0)
    return Scored(scores, **common)
