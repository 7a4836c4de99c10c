"""Markers: `slow` runs with EDGEVEIL_SLOW=1 or -m slow; `data` runs when the real graphs are found.

`fast` names the cases of a parametrised test that run always, by their ids; its other cases are slow.
"""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from forked import share_one_server
from tries import tries

if TYPE_CHECKING:  # the process that hands out the tests runs none: its start would wait for torch
    from edgeveil.graph.graph import Graph
    from edgeveil.privacy.secure import SecureNoise

settings.register_profile("shared machine", deadline=None, max_examples=tries(100))
settings.load_profile("shared machine")


def data_root() -> Path | None:
    """Where the real graphs are, if anywhere."""
    candidates = [os.environ.get("EDGEVEIL_DATA"), Path(__file__).parents[2] / "shared" / "data"]
    return next((Path(c) for c in candidates if c and (Path(c) / "cora" / "graph.npz").is_file()), None)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    slow = bool(os.environ.get("EDGEVEIL_SLOW")) or "slow" in (config.option.markexpr or "")
    have_data = data_root() is not None
    for item in items:
        for mark in item.iter_markers("fast"):
            if isinstance(item, pytest.Function) and item.callspec.id not in mark.args:
                item.add_marker(pytest.mark.slow)
        if "slow" in item.keywords and not slow:
            item.add_marker(pytest.mark.skip(reason="slow: set EDGEVEIL_SLOW=1 or use -m slow"))
        if "data" in item.keywords and not have_data:
            item.add_marker(pytest.mark.skip(reason="needs the real graphs: set EDGEVEIL_DATA"))


def pytest_collection_finish() -> None:
    """Thousands of collected tests and imported modules live to the end: looking for cycles among them is a sixth of the time."""
    share_one_server()
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


@pytest.fixture(scope="module")
def sketched() -> Iterator[None]:
    """For tests of what a page says: its figures keep their words and are drawn only when the slow tests run."""
    from edgeveil.report import attacker_plots, detail, figures, moves_plot

    def words(_: Any, name: str, title: str, description: str) -> str:
        return f'<svg role="img"><title id="{name}-t">{escape(title)}</title><desc>{escape(description)}</desc></svg>'

    with pytest.MonkeyPatch.context() as patch:
        for module in (attacker_plots, detail, figures, moves_plot) if not os.environ.get("EDGEVEIL_SLOW") else ():
            patch.setattr(module, "to_svg", words)
        yield


@pytest.fixture(scope="module")
def trained_briefly() -> Iterator[None]:
    """For tests of words, files and orders, which do not ask how good a model is: no training takes over 20 epochs."""
    from edgeveil.models import train

    real = train._run

    def run(work: Any, *given: Any) -> None:
        work.spec = replace(work.spec, epochs=min(work.spec.epochs, 20))
        real(work, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "_run", run)
        yield
