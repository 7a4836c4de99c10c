"""Black-box influence probes: what to ask, how far to move, how to read rounded, single-precision or softmax answers.

A probe scales the feature rows of some nodes by 1 + delta * sign and reads how every node's answer moved, per delta
(LinkTeller Alg. 1 for one node; as delta -> 0 the response to several nodes is the sum of theirs).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError, TargetError
from edgeveil.release.target import AttackerView, Target

__all__ = ["Probe", "Resolution", "resolution"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
MAX_DECIMALS = 9


@dataclass(frozen=True)
class Resolution:
    """How finely a target answers: `step` is the smallest change it can show, `kind` why."""

    step: float
    kind: str

    @property
    def rounded(self) -> bool:
        return self.kind == "rounded"

    @property
    def exact(self) -> bool:
        """Fine enough that an answer which did not move at all means: not within reach."""
        return self.kind == "float64"


def resolution(answer: Float) -> Resolution:
    """Read the resolution off one answer: decimals if every value has few, single precision, else double."""
    for decimals in range(MAX_DECIMALS + 1):
        step = 10.0**-decimals
        if np.abs(answer - np.round(answer, decimals)).max(initial=0.0) <= max(1e-7 * step, 1e-14):
            return Resolution(step, "rounded")
        single = np.round(answer.astype(np.float32), decimals).astype(np.float64)
        if np.array_equal(answer, single):
            return Resolution(step, "rounded")
    scale = max(float(np.abs(answer).max(initial=0.0)), 1e-12)
    if np.array_equal(answer, answer.astype(np.float32)):
        return Resolution(8 * scale * float(np.finfo(np.float32).eps), "float32")
    return Resolution(8 * scale * float(np.finfo(np.float64).eps), "float64")


class Probe:
    """A target seen from one attacker: his nodes, his features, a step that suits the answers' resolution."""

    def __init__(self, target: Target, view: AttackerView, delta: float | None = None, repeats: int = 1) -> None:
        if delta is not None and not (delta > 0 and np.isfinite(delta)):
            raise InputError(f"delta must be a positive number, got {delta!r}")
        if repeats < 1:
            raise InputError(f"repeats must be at least 1, got {repeats!r}")
        self._target = target
        self._view = view
        self._repeats = repeats
        raw = [target.query()[view.nodes] for _ in range(repeats)]
        self.noise = _spread(raw)
        self.resolution = resolution(raw[0])
        self._binomial = target.answer_kind == "probabilities" and not _sums_to_one(raw[0])
        base = np.mean(raw, axis=0)
        self._weight = self._weights(base)
        self.base = self._read(base)
        self.heard = self._graded(base)  # of the last answer: own nodes it says something graded about
        self.mute = float(1 - self.heard.mean())  # share of own nodes whose unperturbed answer is a rounding stop
        self.delta = self._step() if delta is None else float(delta)
        self.stirred = False  # whether `respond_apart` saw somebody's answer move with another's features

    @property
    def randomised(self) -> bool:
        """Whether asking twice gave two answers (only known when `repeats` > 1)."""
        return self.noise > 0

    def respond(self, positions: Any, signs: Any = 1.0) -> Float:
        """Change of every own node's answer per delta, [own nodes, classes], when these rows move."""
        at = np.atleast_1d(np.asarray(positions, np.int64))
        rows = self._view.rows(at)
        step = self.delta * np.broadcast_to(np.asarray(signs, np.float64), at.shape)[:, None]
        moved = rows * (1 + step)
        columns = self._view.controlled_features
        if columns is not None:
            partly = rows.copy()
            partly[:, columns] = moved[:, columns]
            moved = partly
        nodes = self._view.nodes[at]
        raw = [self._target.query(features=moved, nodes=nodes)[self._view.nodes] for _ in range(self._repeats)]
        answer = np.mean(raw, axis=0)
        self.heard = self._graded(answer)
        return (self._read(answer) - self.base) / self.delta

    def respond_apart(self, senders: Int, listeners: Sequence[Int]) -> Iterator[tuple[int, Float]]:
        """`respond` of every sender about its listeners alone (positions), several senders per pass of the model."""
        apart, nodes = self._target.apart, self._view.nodes
        assert apart is not None
        for members in apart.passes(nodes[senders], [nodes[own] for own in listeners]):
            at = senders[members]
            moved = self._view.rows(at) * (1 + np.full((len(at), 1), self.delta))
            answer = apart.ask(moved, nodes[at])[nodes]
            change = (self._read(answer) - self.base) / self.delta
            self.stirred = self.stirred or bool(np.delete(change, at, axis=0).any())
            yield from ((int(place), change[listeners[place]]) for place in members)

    @property
    def offers_apart(self) -> bool:
        """Whether `respond_apart` answers: a model at hand, asked once, with all columns free to move."""
        return self._target.apart is not None and self._repeats == 1 and self._view.controlled_features is None

    def _graded(self, answer: Float) -> Any:
        """Own nodes whose answer did not end at a rounding stop (all probability in one class)."""
        if self._weight is None or not self.resolution.rounded:
            return np.ones(len(answer), dtype=bool)
        return np.sort(answer, axis=1)[:, -2] > 0.5 * self.resolution.step

    @property
    def floor(self) -> Float:
        """Norm below which a response of each own node is indistinguishable from the answers' grain, [own nodes]."""
        if self.resolution.exact:  # relative to the value read, also where that is the log of a tiny probability
            grain: Any = 32 * float(np.finfo(np.float64).eps) * (1 + np.abs(self.base))
        else:
            step = self.resolution.step if self.resolution.rounded else 4 * self.resolution.step
            grain = step if self._weight is None else step / (self._weight + step)
        out: Float = np.linalg.norm(np.broadcast_to(grain + self.noise, self.base.shape), axis=1) / self.delta
        return out

    def _weights(self, answer: Float) -> Float | None:
        return np.clip(answer, 0.0, None) if self._target.answer_kind == "probabilities" else None

    def _read(self, answer: Float) -> Float:
        """Logits as they are; softmax as centred log p, which is centred logits; sigmoid as log-odds."""
        if self._target.answer_kind != "probabilities":
            return answer
        if answer.min(initial=0.0) < 0 or answer.max(initial=0.0) > 1 + 1e-6:
            raise TargetError("the target says it answers probabilities, but some lie outside [0, 1]")
        # One grain is added so that a probability rounded to 0 stays finite and cannot outweigh the others.
        grain = max(self.resolution.step, 1e-300) if not self.resolution.exact else 1e-300
        log: Float = np.log(answer + grain)
        if self._binomial:
            log -= np.log(1 - answer + grain)
            return log
        if self.resolution.exact:
            log -= log.mean(axis=1, keepdims=True)
        return log

    def _step(self) -> float:
        """Balance the grain, which counts per delta, against curvature and kinks, which grow with delta.

        Small probabilities are the most telling and the most rounded, so they need the longer step.
        """
        grain = max(self.resolution.step, self.noise)
        if self._weight is not None and not (self.resolution.exact and not self.randomised):
            return float(np.clip(5 * grain**0.25, 1e-6, 1.0))
        scale = max(float(np.abs(self.base).std()), 1e-12)
        return float(np.clip((grain / scale) ** (1 / 3), 1e-6, 1.0))


def _sums_to_one(answer: Float) -> bool:
    return bool(np.abs(answer.sum(axis=1) - 1).max(initial=0.0) < 0.02 * max(answer.shape[1], 5))


def _spread(raw: list[Any]) -> float:
    """Standard error of the mean answer of a randomised target; 0 for a deterministic one."""
    if len(raw) < 2:
        return 0.0
    return float(np.sqrt(np.mean(np.var(raw, axis=0, ddof=1)) / len(raw)))
