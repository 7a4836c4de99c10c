"""Matching pursuit of many sparse non-negative rows at once, several columns a round.

A round ranks all columns against what is left of every row, takes those that stand out, fits them together by least
squares and drops what turned negative. A row is explained when nothing but noise is left of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pursue"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
CHUNK = 1 << 18  # numbers fitted together
BATCH = 1 << 23  # matches of rows and columns looked at together
ROUNDS = 24
NEXT = 0.6  # a column is taken with the best one if it matches at least this well
LARGE = 5000  # columns from which a round is dear: rows without a match beyond chance are left for later
PATIENCE = 3
GAIN = 0.999  # what is left must shrink by this from round to round


@dataclass(eq=False)
class _State:
    """Rows still pursued: `at` their places, `picked` [rows, most] columns (padded), `left` what is unexplained."""

    at: Int
    picked: Int
    left: Float
    norm: Float
    dull: Int

    def keep(self, which: Any) -> _State:
        return _State(self.at[which], self.picked[which], self.left[which], self.norm[which], self.dull[which])


def pursue(answers: Float, columns: Float, limit: int, enough: Float, first: Int | None = None) -> list[Any]:
    """Each row of `answers` [rows, m] as few of the `columns` [c, m], with values; None where that failed.

    At most `limit` columns; a rest of the size `enough` is noise. `first`: a column of each row that is always taken
    and may be negative.
    """
    out: list[Any] = [None] * len(answers)
    size = np.linalg.norm(columns, axis=1)
    unit = (columns / np.maximum(size, 1e-300)[:, None]).astype(np.float32)  # only ranks columns
    padded = np.concatenate([columns, np.zeros((1, columns.shape[1]))])
    step = max(1, BATCH // len(columns))
    for start in range(0, len(answers), step):
        part = slice(start, start + step)
        own = None if first is None else first[part]
        for i, found in _pursue(answers[part], padded, unit, limit, enough[part], own):
            out[start + i] = found
    return out


def _pursue(answers: Float, columns: Float, unit: Any, limit: int, enough: Float, first: Int | None) -> list[Any]:
    none, found = len(unit), []
    norm = np.linalg.norm(answers, axis=1)
    for i in np.flatnonzero(norm <= enough):
        found.append((int(i), (np.empty(0, np.int64), np.empty(0))))
    picked = np.full((len(answers), 1), none) if first is None else first[:, None]
    state = _State(np.arange(len(answers)), picked, answers.copy(), norm, np.zeros(len(answers), np.int64))
    state = state.keep(norm > enough)
    for _ in range(ROUNDS):
        if not len(state.at):
            break
        state = _take(state, unit, limit)
        if not len(state.at):
            break
        own = None if first is None else first[state.at]
        state.picked, values, left = _fitted(columns, state.picked, answers[state.at], enough[state.at], own)
        norm = np.linalg.norm(left, axis=1)
        done = norm <= enough[state.at]
        for i in np.flatnonzero(done):
            real = state.picked[i] < none
            found.append((int(state.at[i]), (state.picked[i][real], values[i][real])))
        stay = ~done & (norm < GAIN * state.norm)
        state.left, state.norm = left, norm
        state = state.keep(stay)
    return found


def _take(state: _State, unit: Any, limit: int) -> _State:
    """More columns for every row: those near the best match, and all that stand out of what chance would give."""
    none, m = unit.shape
    match = state.left.astype(np.float32) @ unit.T
    row, place = np.nonzero(state.picked < none)
    old = state.picked[row, place]
    match[row, old] = -1.0
    best = match.max(axis=1)
    chance = state.norm / np.sqrt(m)
    state.dull = state.dull + (best < 1.1 * np.sqrt(2 * np.log(none + 1)) * chance)
    cut = np.maximum(NEXT * best, np.minimum(best, np.sqrt(2 * np.log(max(2.0, 16 * none / m))) * chance))
    new_row, new = np.divmod(np.flatnonzero(match >= cut[:, None].astype(np.float32)), none)
    row, column = np.r_[row, new_row], np.r_[old, new]
    count = np.bincount(row, minlength=len(best))
    keep = (count <= limit) & (best > 0) & (state.dull <= (PATIENCE if none > LARGE else ROUNDS))
    inside = keep[row]
    out = state.keep(keep)
    out.picked = _padded((np.cumsum(keep) - 1)[row[inside]], column[inside], len(out.at), none)
    return out


def _fitted(columns: Float, picked: Int, answers: Float, enough: Float, first: Int | None) -> tuple[Int, Float, Float]:
    """Least squares over the picked columns, and once more without those that came out negative."""
    none = len(columns) - 1
    values, left = _least_squares(columns, picked, answers)
    wrong = (values < 0) & (picked < none)
    if first is not None:
        wrong &= picked != first[:, None]
    again = np.flatnonzero(wrong.any(axis=1) & (np.linalg.norm(left, axis=1) > enough))
    if len(again):
        row, place = np.nonzero(~wrong[again] & (picked[again] < none))
        fewer = _padded(row, picked[again][row, place], len(again), none)
        width = fewer.shape[1]
        picked[again], values[again] = none, 0.0
        picked[again, :width] = fewer
        values[again, :width], left[again] = _least_squares(columns, fewer, answers[again])
    return picked, values, left


def _least_squares(columns: Float, picked: Int, answers: Float) -> tuple[Float, Float]:
    """Values [rows, most] of each row's own columns (the last column of all is zero and pads), and what is left.

    Rows with equally many columns are fitted together, so that little of the work is padding.
    """
    count, m = len(picked), columns.shape[1]
    none = len(columns) - 1
    values, left = np.zeros(picked.shape), np.empty_like(answers)
    size = (picked < none).sum(axis=1)
    order, start = np.argsort(size, kind="stable"), 0
    while start < count:
        width = max(1, int(size[order[start]]))
        end = min(start + max(1, CHUNK // (width * m)), int(np.searchsorted(size[order], 1.2 * width, side="right")))
        part, start = order[start:end], end
        width = max(1, int(size[part[-1]]))
        mine, diagonal = picked[part, :width], np.arange(width)
        own = columns[mine]
        gram = own @ own.transpose(0, 2, 1)
        gram[:, diagonal, diagonal] += mine == none
        values[part, :width] = np.linalg.solve(gram, own @ answers[part, :, None])[:, :, 0]
        left[part] = answers[part] - (values[part, None, :width] @ own)[:, 0]
    return values, left


def _padded(row: Int, column: Int, count: int, none: int) -> Int:
    """Columns listed by row as an array [count, most], filled up with `none`."""
    order = np.argsort(row, kind="stable")
    row, column = row[order], column[order]
    size = np.bincount(row, minlength=count)
    out = np.full((count, max(1, int(size.max(initial=0)))), none)
    out[row, np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)] = column
    return out
