"""A cluster that loses workers in the middle of a query: exact counts, one noisy answer, one charge."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from edgeveil.defences.stored.defend_stored import defend_stored
from edgeveil.graph.splits import apply_split
from edgeveil.graph.stored.graph_in_files import open_graph
from edgeveil.graph.stored.heavy_tailed import HeavyTailed
from edgeveil.models.settings import TrainSpec
from edgeveil.privacy.ledger import open_ledger

FEW = TrainSpec(epochs=2, batch_size=256, keep="best-val-loss")


class Killer(threading.Thread):
    """Kills one worker process of our own cluster after the other, for as long as it runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.killed: set[int] = set()
        self._over = threading.Event()

    def run(self) -> None:
        import psutil

        while not self._over.is_set() and len(self.killed) < 3:
            for child in psutil.Process().children(recursive=True):
                try:
                    worker = "CoarseGrainedExecutorBackend" in " ".join(child.cmdline())
                    if worker and time.time() - child.create_time() > 1 and child.pid not in self.killed:
                        child.kill()
                        self.killed.add(child.pid)
                        break
                except psutil.Error:
                    continue
            self._over.wait(1.0)

    def stop(self) -> None:
        self._over.set()
        self.join()


@pytest.mark.slow
def test_killed_workers_change_no_count_and_no_charge(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    files = HeavyTailed(nodes=2000, edges=20_000, features=6, classes=3).write(tmp_path)
    with open_graph(*files, threads=1) as plain:
        edges, truth = plain.num_edges, plain.cluster_degrees(plain.nodes.y, 3)
    ledger, killer = str(tmp_path / "ledger.sqlite"), Killer()
    with open_graph(
        *files, name="graph", work=tmp_path / "work", engine="spark:local-cluster[2,1,1024]", memory="512MB"
    ) as graph:
        graph = graph.with_nodes(apply_split(graph.nodes, "50:25:25", 0))
        killer.start()
        try:
            with defend_stored(graph, "lpgnet-1", epsilon=2.0, train=FEW, ledger=ledger) as release:
                first = np.array(release.predictor.vectors[0])  # type: ignore[attr-defined]
            counted = graph.cluster_degrees(graph.nodes.y, 3)
        finally:
            killer.stop()
        with defend_stored(graph, "lpgnet-1", epsilon=2.0, train=FEW, ledger=ledger) as release:
            again = np.array(release.predictor.vectors[0])  # type: ignore[attr-defined]
        assert graph.num_edges == edges
    assert killer.killed, "no worker was killed, so nothing was shown"
    np.testing.assert_array_equal(counted, truth)
    np.testing.assert_array_equal(first, again)
    with open_ledger(ledger) as opened:
        assert len(opened.charges()) == 1
    assert len(list((tmp_path / "work").rglob("counts-1.npy"))) == 1
