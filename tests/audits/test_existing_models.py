"""Models that exist already: what they state, whether they answer the same twice, tensors as they come."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import edgeveil as ev
from edgeveil.errors import InputError
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.release.target import Target
from zoo import toy


class Sums(torch.nn.Module):
    """Sum over neighbours; with dropout in training mode. Its answers carry gradients."""

    def __init__(self, graph: ev.Graph) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.adjacency = torch.tensor(graph.adjacency.toarray() + np.eye(graph.num_nodes), dtype=torch.float32)

    def forward(self, x: object) -> torch.Tensor:
        dense = torch.tensor(np.array(x.todense() if hasattr(x, "todense") else x), dtype=torch.float32)
        out: torch.Tensor = self.weight * torch.nn.functional.dropout(self.adjacency @ dense, 0.5, self.training)
        return out


@pytest.fixture
def graph() -> ev.Graph:
    return toy()


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_answers_with_gradients_or_half_precision_are_taken(graph: ev.Graph, precision: torch.dtype) -> None:
    model = Sums(graph).eval()
    target = Target.from_callable(lambda x: model(x).to(precision), features=graph.x)
    answer = target.query(nodes=[3, 5])
    assert isinstance(answer, np.ndarray) and answer.dtype == np.float64 and answer.shape[0] == 2


def test_a_model_in_training_mode_is_noticed(graph: ev.Graph) -> None:
    model = Sums(graph).train()
    found = ev.audit(graph, target=Target.from_callable(model, features=graph.x), nodes=30)
    assert any("training mode" in line for line in found.verdict) and any("two answers" in n for n in found.data.notes)
    model.eval()
    calm = ev.audit(graph, target=Target.from_callable(model, features=graph.x), nodes=30)
    assert not any("training mode" in line for line in [*calm.verdict, *calm.data.notes])


def test_a_stated_guarantee_stands_in_rows_and_statement(graph: ev.Graph) -> None:
    model = Sums(graph).eval()
    stated = Guarantee(status="sound", claimed_epsilon=2.0, delta=1e-6, randomness="secure")
    found = ev.audit(graph, target=Target.from_callable(model, features=graph.x), guarantee=stated, nodes=30)
    assert {(r["status"], r["epsilon"], r["delta"]) for r in found.rows} == {("sound", 2.0, 1e-6)}
    assert any(s.startswith("Stated, not checked: ") for s in found.data.guarantees.values())
    with pytest.raises(InputError, match="about target"):
        ev.audit(graph, guarantee=stated)
