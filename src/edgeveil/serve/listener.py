"""The socket that the server listens on."""

from __future__ import annotations

import socket

from edgeveil.errors import UsageError

__all__ = ["listen"]


def listen(host: str, port: int) -> socket.socket:
    """A bound TCP socket; port 0 picks a free one.

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
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return listener
