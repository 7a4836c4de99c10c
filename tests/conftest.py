"""Markers: `slow` runs with EDGEVEIL_SLOW=1 or -m slow; `data` runs when the real graphs are found."""

from __future__ import annotations

import gc
import os
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:  # the process that hands out the tests runs none: its start would wait for torch
    from edgeveil.graph.graph import Graph
    from edgeveil.privacy.secure import SecureNoise

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
    from zoo import three_classes

    return three_classes()


@pytest.fixture
def same_bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secure source reads bits that the test's name decides, so that a verdict changes only with the code.

    With the system's bits `verify` may refute a sound mechanism in 1 % of all runs, by its confidence, and a hundred
    such tests would fail somewhere in every other run. tests/privacy draws from the system.
    """
    import numpy as np

    from edgeveil.privacy.secure import SecureNoise

    bits = np.random.default_rng(zlib.crc32(request.node.name.encode()))

    def words(_: SecureNoise, kind: Any, size: int) -> Any:
        return np.frombuffer(bits.bytes(np.dtype(kind).itemsize * size), dtype=kind)

    monkeypatch.setattr(SecureNoise, "_words", words)


@pytest.fixture
def short_read_outs(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that do not ask how good veil's read-outs are: they train for 500 epochs, whatever `train` says."""
    from edgeveil.defences.veil import read_outs

    real = read_outs.fit

    def fit(*given: Any, **wishes: Any) -> Any:
        return real(*given[:6], replace(given[6], epochs=10), *given[7:], **wishes)

    monkeypatch.setattr(read_outs, "fit", fit)
