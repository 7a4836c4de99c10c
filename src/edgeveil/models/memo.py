"""Remembering finished work, so that a sweep trains the same model on the same data once.

Training is a pure function of first weights, data, settings and seed; inside `remembering` a second call with equal
ones gets the stored weights. Five inference graphs share one model of twitch-es, ten epsilons one first MLP.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from edgeveil.models.network import Model

__all__ = ["Memo", "active", "remembering", "weights_digest"]


@dataclass
class Memo:
    """Least recently used entries first, `limit` bytes in all; `hits` of `asked` were not computed again."""

    limit: int = 256 * 2**20
    asked: int = 0
    hits: int = 0
    _kept: OrderedDict[str, tuple[Any, int]] = field(default_factory=OrderedDict)

    def recall(self, key: str, model: Model) -> Any | None:
        """Put stored weights into the model and return the stored history, or None."""
        found = self.find(key)
        if found is None:
            return None
        weights, history = found
        model.load_state_dict(weights)
        model.eval()
        return history

    def keep(self, key: str, model: Model, history: Any) -> None:
        """Store a copy of the weights."""
        weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
        self.put(key, (weights, history), sum(v.numel() * v.element_size() for v in weights.values()))

    def find(self, key: str) -> Any | None:
        """A stored value, or None."""
        self.asked += 1
        found = self._kept.get(key)
        if found is None:
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: str, value: Any, size: int) -> None:
        """Store a value of so many bytes, forgetting the oldest beyond the limit."""
        self._kept[key] = (value, size)
        while len(self._kept) > 1 and sum(size for _, size in self._kept.values()) > self.limit:
            self._kept.popitem(last=False)


_ACTIVE: list[Memo] = []


def active() -> Memo | None:
    """The memo in use, if any."""
    return _ACTIVE[-1] if _ACTIVE else None


@contextmanager
def remembering(memo: Memo) -> Iterator[Memo]:
    """Use a memo for every training in this block."""
    _ACTIVE.append(memo)
    try:
        yield memo
    finally:
        _ACTIVE.remove(memo)


def weights_digest(model: Model) -> str:
    """Digest of the weights as they are now."""
    digest = hashlib.sha256()
    for name, value in model.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()
