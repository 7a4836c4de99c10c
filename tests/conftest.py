"""Markers: `slow` runs with EDGEVEIL_SLOW=1 or -m slow; `data` runs when the real graphs are found."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from edgeveil.graph.graph import Graph
from zoo import three_classes

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


def data_root() -> Path | None:
    """Where the real graphs are, if anywhere."""
    candidates = [os.environ.get("EDGEVEIL_DATA"), Path(__file__).parents[2] / "shared" / "data"]
    return next((Path(c) for c in candidates if c and (Path(c) / "cora" / "graph.npz").is_file()), None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    slow = bool(os.environ.get("EDGEVEIL_SLOW")) or "slow" in (config.option.markexpr or "")
    have_data = data_root() is not None
    for item in items:
        if "slow" in item.keywords and not slow:
            item.add_marker(pytest.mark.skip(reason="slow: set EDGEVEIL_SLOW=1 or use -m slow"))
        if "data" in item.keywords and not have_data:
            item.add_marker(pytest.mark.skip(reason="needs the real graphs: set EDGEVEIL_DATA"))


def pytest_collection_finish() -> None:
    """Thousands of collected tests and imported modules live to the end: looking for cycles among them is a sixth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session")
def toy() -> Graph:
    """The graph that tests of runs, audits and papers share."""
    return three_classes()
