"""How far out to ask and how far to move, from how finely the target answers and what it accepts.

Exact logits: far out, where no bias decides a unit's state, in as many directions as there are outputs. Rounded logits:
further out still, until the rounding is below double precision. Single precision: along the flat row itself, where
moves of any size keep every state. Probabilities: as far out as their logarithms stay finite; rounded ones: on a row
that leaves the classes level.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp

from edgeveil.attacks.flatroot.ask import ask_power
from edgeveil.attacks.flatroot.balance import balance
from edgeveil.attacks.flatroot.decode import nothing
from edgeveil.attacks.flatroot.exact import COLUMNS, Seen
from edgeveil.attacks.flatroot.forms import Form
from edgeveil.attacks.flatroot.own import ask_own
from edgeveil.attacks.flatroot.questions import Flat, OutOfQuestions
from edgeveil.release.target import Target

__all__ = ["ask"]

FAR = 1e8
FARTHEST = 1e12
MANY = 2 * 10**7  # numbers in one question
NEAR_ZERO = 1e-7  # zero itself would show biases alone, which say nothing of the answers' precision
STEP = 1e-3
SIGNAL = 2.0  # how much questions move the log-ratios of rounded probabilities
UNKNOWN = [
    [Form(norm, layers) for layers in (2, 1, 3) for norm in ("aug", "first-order", "bingge")],
    [Form("aug-rwalk", layers) for layers in (2, 1, 3)],
]
SPREAD = 600.0  # of log-probabilities that double precision still holds


def ask(
    target: Target, form: Form | None, width: int, rng: np.random.Generator, budget: int | None, limit: float | None
) -> Seen:
    """Decode a black box; without a form, try the usual ones on the same answers."""
    n, asked = target.num_nodes, target.queries
    groups = UNKNOWN if form is None else [[form]]
    seen = Seen(nothing(f"{budget} questions are not enough to begin"), sp.csr_matrix((n, n)))
    for forms in groups:
        left = None if budget is None else budget - (target.queries - asked)
        try:
            flat = _settle(target, forms[0], width, rng, left, limit)
        except OutOfQuestions:
            break
        seen = ask_own(flat, forms[0], n, rng) if forms[0].own else ask_power(flat, forms, n)
        if seen.decoded.consistent:
            break
    return seen


def _settle(
    target: Target, form: Form, width: int, rng: np.random.Generator, budget: int | None, limit: float | None
) -> Flat:
    """The base question, asked again where the first shows that another scale suits better."""
    scale = _first_scale(target, form)
    if limit is not None:
        scale = min(scale, limit / 1.6)
    columns = COLUMNS if limit is None else MANY // target.num_nodes  # many small features move as much as few large
    flat = Flat(target, width, rng, scale, _step(form), budget, central=form.attends, columns=columns)
    better = scale
    if target.answer_kind == "probabilities":
        spread = float(np.abs(flat.base).max(initial=0.0))
        better = SPREAD / max(spread, 1e-6) if flat.grain.exact else scale
    elif flat.grain.rounded and not form.from_zero and not form.attends:
        better = FARTHEST
    if limit is not None:
        better = min(better, limit / 1.6)
    if not 0.5 < better / max(scale, 1e-300) < 2 and not form.from_zero:
        flat.move_to(better)
    if flat.coarse and not form.from_zero and not form.attends and limit is None:
        flat.settle = partial(balance, flat, SIGNAL)
        flat.settle()
    elif flat.grain.kind == "float32" or flat.coarse:
        flat.along_itself()
    return flat


def _first_scale(target: Target, form: Form) -> float:
    if form.from_zero:
        return NEAR_ZERO
    if form.attends or target.answer_kind == "probabilities":
        return 1.0
    return FAR


def _step(form: Form) -> float:
    if form.attends:
        return 1e-5
    return 1e-6 if form.from_zero else STEP
