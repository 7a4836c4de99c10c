"""Several processes that share one port and one ledger."""

from __future__ import annotations

import multiprocessing
import signal
import socket
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

from edgeveil.errors import UsageError

__all__ = ["run_workers"]


def run_workers(count: int, work: Callable[[dict[str, Any], socket.socket], None], settings: dict[str, Any],
                listener: socket.socket) -> None:  # fmt: skip
    """Run `work` in `count` processes on one listening socket until a signal; one that dies ends them all.

    Ending, rather than starting it anew, leaves the decision to whoever watches the service, with the log at hand.
    """
    listener.set_inheritable(True)
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=work, args=(settings, listener), name=f"worker-{i}") for i in range(count)]
    asked = False

    def stop(*_: Any) -> None:
        nonlocal asked
        asked = True
        for worker in workers:
            if worker.is_alive():
                worker.terminate()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    for worker in workers:
        worker.start()
    ended = wait([worker.sentinel for worker in workers])
    fell = [worker.name for worker in workers if worker.sentinel in ended]  # one may have ended and not be reaped yet
    by_itself = not asked
    stop()
    for worker in workers:
        worker.join()
    if by_itself:
        raise UsageError(f"{fell[0]} ended by itself, so all were stopped; the log above says why")
