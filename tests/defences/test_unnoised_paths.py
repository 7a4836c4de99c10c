"""Private edges reach a release through the noise stage alone: with its output held fixed, neighbours give equal bytes.

Notes, manifests, sizes, weights, stored features and the order of names are compared, in files as they are published.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences.edgerand import EdgeRand
from edgeveil.defences.gap import GAP
from edgeveil.defences.lapgraph import LapGraph
from edgeveil.defences.lpgnet.lpgnet import LPGNet
from edgeveil.defences.veil import denoised_rr
from edgeveil.defences.veil.choice import Veil
from edgeveil.models.settings import TrainSpec

pytestmark = pytest.mark.usefixtures("short_read_outs")
N = 40
QUICK = TrainSpec(epochs=3)


def world(pendant: bool) -> ev.Graph:
    """The last node has one edge or none."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N)
    pairs = np.concatenate([rng.integers(0, N - 1, (2, 90)), [[N - 1], [0]]], axis=1)
    return ev.Graph.from_edges(
        pairs if pendant else pairs[:, :-1], rng.random((N, 4), np.float32) + y[:, None], y,
        train_mask=np.arange(N) % 3 == 0, val_mask=np.arange(N) % 3 == 1, test_mask=np.arange(N) % 3 == 2,
        node_ids=[f"p{i:02d}" for i in range(N)], name="world",
    )  # fmt: skip


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that mechanisms tell about edges, replaced by the same fixed draw."""
    fixed = np.random.default_rng(1).integers(0, N, (2, 120))

    def graph(self: Any, graph: ev.Graph, seed: Any = None, **_: Any) -> ev.Graph:
        if isinstance(self, denoised_rr._Thinned):
            self.drawn[id(graph)] = 300
        return graph.with_edges(fixed)

    for kind in (EdgeRand, LapGraph, denoised_rr._Thinned):
        monkeypatch.setattr(kind, "perturb", graph)
    monkeypatch.setattr(
        LPGNet, "perturb_counts", lambda self, c, *_: np.random.default_rng(2).poisson(3, c.shape).astype(float)
    )
    monkeypatch.setattr(GAP, "perturb_sums", lambda self, s, *_: np.random.default_rng(3).normal(size=s.shape))
    monkeypatch.setattr(Veil, "noisy_count", lambda self, job: 500 if self.epsilon > 5 else 0)


CASES = [("edgerand", 2.0), ("lapgraph", 2.0), ("lpgnet-2", 2.0), ("veil-counts", 2.0), ("veil-rr", 4.0), ("veil", 6.0),
         ("gap", 2.0), ("mlp", None)]  # fmt: skip


@pytest.mark.parametrize("setting", ["transductive", "inductive-evolving"])
@pytest.mark.parametrize(("name", "epsilon"), CASES)
def test_neighbours_differ_in_the_output_of_the_noise_alone(
    tmp_path: Path, held: None, name: str, epsilon: float | None, setting: str
) -> None:
    told = []
    for pendant in (False, True):
        made = ev.defend(world(pendant), name, epsilon=epsilon, seed=0, setting=setting, train=QUICK)
        made.save(tmp_path / str(pendant))
        told.append({p.name: p.read_bytes() for p in (tmp_path / str(pendant)).iterdir()})
    assert told[0] == told[1]
