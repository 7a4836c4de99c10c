from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from edgeveil.models.adam import Adam


@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("fused", [True, False])
def test_equals_torch(decay, fused, monkeypatch):
    if not fused:
        monkeypatch.setattr("edgeveil.models.adam._FUSED", None)
    torch.manual_seed(0)
    start = [torch.randn(4, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)]
    mine, other = ([p.clone().requires_grad_() for p in start] for _ in range(2))
    ours, theirs = Adam([(mine, decay)], 0.03), torch.optim.Adam(other, lr=0.03, weight_decay=decay)
    for step in range(60):
        ours.lr = theirs.param_groups[0]["lr"] = 0.03 * (1 - step / 60)
        for params in (mine, other):
            (params[0].tanh().sum() ** 2 + (params[0] @ params[1]).square().sum()).backward()
        ours.step()
        theirs.step()
        ours.clear()
        theirs.zero_grad()
    for a, b in zip(mine, other, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_groups_have_their_own_decay():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    adam = Adam([([a], 0.5), ([b], 0.0)], 0.1)
    (0.0 * (a.sum() + b.sum())).backward()
    adam.step()
    assert (a < 1).all()
    assert (b == 1).all()


def test_training_does_not_import_the_compiler():
    code = (
        "import sys, numpy as np, scipy.sparse as sp; from edgeveil.models import *; "
        "a = sp.identity(4, format='csr'); m = build(ModelSpec(), 5, 3, 0); "
        "fit(m, np.ones((4, 5)), Structure(a), np.zeros(4, int), np.ones(4, bool), None, TrainSpec(epochs=2), seed=0); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
