"""Drop: training on noisy labels by label propagation with forward correction (LPGNN §4.3, used by GraphPrivatizer).

The model's class probabilities P(y|x) times the known noise matrix T give P(y'|x), the probabilities of what a node
reported. KProp with a softmax denoises reports; the loss compares it on both sides, the prediction's and the label's.
"""

from __future__ import annotations

import hashlib
import math
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeveil.models.network import kprop
from edgeveil.models.objective import score
from edgeveil.models.structure import Structure
from edgeveil.privacy.label_rr import label_keep, label_transition

__all__ = ["Drop"]

_TINY = 1e-20


class Drop:
    """The objective for labels that went through randomised response with `epsilon`; `steps` is K_y.

    Only reports of training and validation nodes enter the propagation. Validation compares P(y'|x) with the noisy
    reports of validation nodes, so no clean label is ever read. A training node whom no report reaches is compared with
    its own, unpropagated; the published code gives it class 0 (`published=True`).
    """

    def __init__(
        self,
        reports: NDArray[np.int64],
        train: NDArray[np.bool_],
        val: NDArray[np.bool_] | None,
        structure: Structure,
        *,
        classes: int,
        epsilon: float,
        steps: int,
        published: bool = False,
    ) -> None:
        self.structure, self.steps = structure, steps
        self.y = torch.tensor(np.asarray(reports, np.int64))
        self.train = torch.tensor(np.flatnonzero(train))
        self.val = None if val is None or not val.any() else torch.tensor(np.flatnonzero(val))
        self.noise = torch.tensor(label_transition(epsilon, classes))
        self.keep = label_keep(epsilon, classes)
        self.reports = False
        self._reported = (math.inf, 0.0, 0.0)
        known = self.train if self.val is None else torch.cat([self.train, self.val])
        sent = torch.zeros(len(self.y), classes)
        sent[known, self.y[known]] = 1.0
        heard = self._propagate(sent)[self.train]
        self.target = heard.argmax(1)
        unheard = (heard.sum(1) == 0) & (not published)
        self.alone = unheard.nonzero().squeeze(1)
        self.target[self.alone] = self.y[self.train[self.alone]]

    @cached_property
    def identity(self) -> str:
        """What tells it from other objectives for the same logits: digest of reports, masks, noise and propagation."""
        near = self.structure.adjacency
        arrays = [self.y, self.train, self.train[:0] if self.val is None else self.val, self.noise, self.target]
        parts = [np.asarray(a) for a in (*arrays, self.alone, near.indptr, near.indices, near.data)]
        digest = hashlib.sha256(f"{self.steps} {[part.shape for part in parts]}".encode())
        for part in parts:
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def _propagate(self, p: Tensor) -> Tensor:
        out = kprop(p, self.structure, self.steps)
        assert isinstance(out, Tensor)
        return out

    def reported(self, logits: Tensor) -> Tensor:
        """P(y'|x) = P(y|x) T."""
        return torch.softmax(logits, dim=1) @ self.noise.to(logits.dtype)

    def train_loss(self, logits: Tensor) -> Tensor:
        """Cross-entropy of the denoised prediction against the denoised label of the training nodes."""
        p = reported = self.reported(logits)
        if self.steps:
            p = torch.softmax(self._propagate(reported), dim=1)
        p = p[self.train]
        if len(self.alone):
            p = p.index_copy(0, self.alone, reported[self.train[self.alone]])
        return -torch.log(p.gather(1, self.target.unsqueeze(1)) + _TINY).mean()

    def validate(self, logits: Tensor) -> tuple[float, float] | None:
        """Forward-corrected loss and accuracy on the noisy reports of the validation nodes."""
        if self.val is None:
            return None
        found = self.measure(logits, self.val)
        self._note(*found, self.measure(logits, self.train)[1])
        return found

    def _note(self, loss: float, val: float, train: float) -> None:
        """Whether the authors' code would report this epoch (`reports`).

        Against the last one it reported, validation loss must fall and both accuracies on noisy labels rise, without
        exceeding what the label noise allows.
        """
        old_loss, old_val, old_train = self._reported
        self.reports = loss < old_loss and old_val < val <= self.keep and old_train < train <= 1.05 * self.keep
        if self.reports:
            self._reported = (loss, val, train)

    def measure(self, logits: Tensor, nodes: Tensor) -> tuple[float, float]:
        """Loss and accuracy of P(y'|x) against the reports of these nodes."""
        p = self.reported(logits)[nodes]
        loss = -torch.log(p.gather(1, self.y[nodes].unsqueeze(1)) + _TINY).mean()
        return float(loss), score(p, self.y[nodes])
