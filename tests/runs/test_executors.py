"""Executors give the same outcomes, keep groups together, and survive workers that die."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import payload
import pytest
import scipy.sparse as sp

from edgeveil.errors import InputError, StorageError, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.runs.executors import make_executor
from edgeveil.runs.processes import Processes
from edgeveil.runs.shared_graphs import from_arrays, open_graph, save_graph, to_arrays
from edgeveil.runs.tasks import Backlog, Outcome, Task

LOCAL = ("serial", "processes")


def outcomes(name: str, tasks: list[Task], graphs: dict[str, Graph] | None = None) -> dict[str, Outcome]:
    found = list(make_executor(name, 2).run(payload.FUNCTION, tasks, graphs or {}))
    assert len(found) == len(tasks)
    return {o.task.id: o for o in found}


def test_serial_and_processes_agree(toy: Graph) -> None:
    tasks = payload.tasks(12)
    first, second = (outcomes(name, tasks, {"toy": toy}) for name in LOCAL)
    assert {k: o.result for k, o in first.items()} == {k: o.result for k, o in second.items()}
    result = first["0003"].result
    assert result is not None and result["rows"][0]["n_nodes"] == toy.num_nodes


@pytest.mark.parametrize("name", LOCAL)
def test_a_failing_task_stops_nothing(name: str) -> None:
    found = outcomes(name, payload.tasks(8, bad=[2, 5]))
    assert {k for k, o in found.items() if o.result is None} == {"0002", "0005"}
    assert "number 5 is bad" in str(found["0005"].error)
    assert found["0001"].provenance["versions"]["numpy"] == np.__version__
    assert found["0001"].provenance["peak_mb"] > 1


def test_a_killed_worker_is_replaced_and_its_task_done_again(tmp_path: Path) -> None:
    found = outcomes("processes", payload.tasks(8, suicide=3, grave=str(tmp_path / "grave")))
    assert (tmp_path / "grave").exists()
    assert all(o.result is not None for o in found.values())
    assert found["0003"].attempts == 2 and found["0004"].attempts == 1


def test_a_task_that_always_kills_its_worker_is_given_up() -> None:
    found = outcomes("processes", payload.tasks(6, always_dies=1))
    assert "died 3 times" in str(found["0001"].error)
    assert sum(o.result is not None for o in found.values()) == 5


def test_workers_use_one_thread_and_are_not_this_process(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    outcomes("processes", payload.tasks(10, diary=str(diary), seconds=0.05))
    pids = {int(line.split()[1]) for line in diary.read_text().splitlines()}
    assert os.getpid() not in pids and len(pids) == 2


def test_closing_early_ends_the_workers(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    running = Processes(2).run(payload.FUNCTION, payload.tasks(50, diary=str(diary), seconds=0.2), {})
    next(running)
    running.close()
    assert len(diary.read_text().splitlines()) < 10


def test_a_backlog_keeps_groups_together_and_then_helps() -> None:
    backlog = Backlog([Task(f"{g}{n}", {}, group=g) for g in "ab" for n in range(3)])
    one = backlog.take()
    two = backlog.take()
    assert one is not None and two is not None and one.group != two.group
    mine = [backlog.take(one.group) for _ in range(2)]
    assert all(t is not None and t.group == one.group for t in mine)
    helped = backlog.take(one.group)
    assert helped is not None and helped.group == two.group
    backlog.put_back(helped)
    assert len(backlog) == 2 and backlog.take(two.group) == helped and backlog.attempts[helped.id] == 2


@pytest.mark.parametrize("sparse", [True, False])
def test_graphs_are_shared_without_change(toy: Graph, tmp_path: Path, sparse: bool) -> None:
    graph = toy.with_features(sp.csr_matrix(toy.x)) if sparse else toy
    save_graph(graph, tmp_path / "g")
    for copy in (open_graph(tmp_path / "g"), from_arrays(*to_arrays(graph))):
        fresh = copy._replace()  # drops the fingerprint that travelled along
        assert fresh.fingerprint == graph.fingerprint
        assert (copy.name, copy.split, copy.num_classes, copy.is_twin) == ("toy", "given", 3, False)
        assert not copy.indices.flags.writeable or copy.indices is graph.indices


def test_a_full_temporary_disk_is_explained(toy: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("edgeveil.runs.processes.save_graph", full)
    with pytest.raises(StorageError, match=r"No space left on device.*TMPDIR"):
        outcomes("processes", payload.tasks(2), {"toy": toy})


def test_nonsense_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'processes'"):
        make_executor("process")
    with pytest.raises(InputError, match="workers"):
        make_executor("serial", 0)
