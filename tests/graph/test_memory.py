from __future__ import annotations

from edgeveil.graph.memory import available_memory


def test_memory_is_a_sensible_figure() -> None:
    free = available_memory()
    assert free is None or free > 10**6
