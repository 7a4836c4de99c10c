"""The socket that the server listens on."""

from __future__ import annotations

import socket

from edgeveil.errors import UsageError

__all__ = ["listen"]

BACKLOG = 2048  # connections that may wait to be accepted, as uvicorn has it


def listen(host: str, port: int) -> socket.socket:
    """A TCP socket that takes connections from now on: who is early waits, and is not refused. Port 0 picks a free one.

    The protocol is named because asyncio turns off Nagle's algorithm (TCP_NODELAY) only for sockets that say they are
    TCP, and accepted connections take the listener's word. Without it every kept-alive answer waits 40 ms for the
    client's delayed acknowledgement.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return listener
