"""A flat row far out on which no class wins: probabilities stay readable while biases no longer decide a unit's state.

On flat features the logits are s c W times a number per node, plus biases. Near zero biases decide which units are on;
far out the classes part and rounded probabilities are 0 or 1. A row c with c W level over the classes has neither
problem. Newton steps find it: move all rows alike along random directions, see what that does, undo the difference;
then go further out and level again. The last of these moves also show how the answers mix the directions: all nodes
answer alike, up to a factor per node.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgeveil.attacks.flatroot.questions import Flat

__all__ = ["balance"]

Float = NDArray[np.float64]
NUDGE = 0.3  # log-ratios that a move for Newton's step should cause
FARTHER = 2.0
STAGES = 60
FAR = 1000.0  # how much further out than where logits are of the order of one
SPARE = 2  # times as many directions as outputs, so that small turns of the row suffice


def balance(flat: Flat, signal: float) -> None:
    """Level the flat row of `flat`, as far out as that works, and choose moves that change log-ratios by `signal`."""
    flat.turn(SPARE * flat.base.shape[1])
    start = _readable(flat)
    slopes, reach = _slopes(flat, np.ones(len(flat.directions)))
    best = (flat.scale, flat.row.copy())
    for _ in range(STAGES):
        before = _tilt(flat)
        flat.row[flat.columns] -= _undo(flat, slopes)
        flat.move_to(flat.scale)
        if _tilt(flat) < _readable_up_to(flat) / 2:
            if flat.scale >= best[0]:
                best = (flat.scale, flat.row.copy())
            if flat.scale < FAR * start:
                flat.move_to(flat.scale * FARTHER)
            elif _tilt(flat) > 0.9 * before:
                break
        elif _tilt(flat) > 0.7 * before:  # other units are on now
            _readable(flat)
            slopes, reach = _slopes(flat, reach)
    flat.row = best[1]
    flat.turn(flat.base.shape[1])
    flat.move_to(best[0])
    slopes, reach = _slopes(flat, np.full(len(flat.directions), float(np.median(reach))))
    size = float(np.sqrt(sum((s**2).mean() for s in slopes)))
    flat.step = signal / max(size, 1e-300) / flat.scale
    flat.shown = _common(flat, slopes)


def _readable_up_to(flat: Flat) -> float:
    """Log-ratios that rounded probabilities still show well."""
    return -0.5 * float(np.log(flat.grain.step))


def _tilt(flat: Flat) -> float:
    """How far the classes are from level: a log-ratio that one answer in ten exceeds (hubs amplify all biases)."""
    return float(np.quantile(np.abs(flat.base), 0.9))


def _readable(flat: Flat) -> float:
    """A scale at which enough answers can be read."""
    for _ in range(12):
        if (np.abs(flat.base).max(axis=1) < _readable_up_to(flat)).mean() > 0.3:
            break
        flat.move_to(flat.scale / 2)
    return flat.scale


def _slopes(flat: Flat, reach: Float) -> tuple[list[Float], Float]:
    """Change of the log-ratios [n, outputs] per feature unit when all rows move alike, for every direction."""
    n, count = len(flat.base), len(flat.directions)
    step, flat.step = flat.step, 1.0 / flat.scale
    seen = np.abs(flat.base).max(axis=1) < _readable_up_to(flat)
    out, reach = [], reach.copy()
    for k in range(count):
        for _ in range(3):
            z = np.zeros((n, count))
            z[:, k] = reach[k]
            change = flat.ask(z)
            size = float(np.quantile(np.abs(change[seen]), 0.9)) if seen.any() else NUDGE
            if NUDGE / 4 < size < 4 * NUDGE:
                break
            reach[k] *= NUDGE / max(size, 1e-3)
        out.append(change / z[0, k])
    flat.step = step
    return out, reach


def _undo(flat: Flat, slopes: list[Float]) -> Float:
    """The move of the flat row, per scale, that levels the classes."""
    seen = np.abs(flat.base).max(axis=1) < _readable_up_to(flat)
    seen = seen if seen.mean() > 0.05 else np.ones(len(seen), dtype=bool)
    left = np.stack([s[seen].ravel() for s in slopes], axis=1)
    beta = np.linalg.lstsq(left, flat.base[seen].ravel(), rcond=1e-4)[0]
    out: Float = beta @ flat.directions / flat.scale
    return out


def _common(flat: Flat, slopes: list[Float]) -> Float:
    """Q [directions, outputs] up to a factor: moved alike, node u answers (P^k 1)_u Q. Blurred nodes count less."""
    seen = np.concatenate(slopes, axis=1)  # [n, directions * outputs]
    odds = np.exp(np.column_stack([flat.base, np.zeros(len(flat.base))]))
    sharp = odds.min(axis=1) / odds.sum(axis=1)  # rounding moves a log-ratio by a step over the smallest probability
    best = np.linalg.svd(sharp[:, None] * seen, full_matrices=False)[2][0]
    sign = np.sign(np.median(seen @ best))
    out: Float = (sign * best).reshape(len(slopes), -1)
    return out
