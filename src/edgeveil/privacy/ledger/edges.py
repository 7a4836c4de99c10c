"""Which edges an edge set holds, as keyed hashes: the ledger can compare them and nobody without the key can.

A node is known by the owner's id (`Graph.node_ids`), so that the same graph in another row order has the same hashes;
a graph without ids is known by its row numbers. Such hashes compare only with those of a graph of as many rows, and
only show what is shared: the same people in another order have other hashes (`overlap.bills` assumes the worst).
Hashes have 64 bits. Two edges that fall on one hash (chance below 10^-5 for two sets of 10^7 edges) are taken for one,
which can only raise a bill; one edge never has two hashes.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import StorageError
from edgeveil.graph.graph import Graph
from edgeveil.graph.stored.graph_in_files import StoredGraph
from edgeveil.privacy.ledger.overlap import BY_ROW

__all__ = ["LIMIT", "EdgeHashes", "EdgeKey", "hash_edges"]

LIMIT = 10**7
_CHUNK = 2**20
Hashes = NDArray[np.uint64]


class EdgeHashes(NamedTuple):
    """Sorted distinct hashes; `identity` says what the nodes are known by (``ids`` or ``rows:n``)."""

    identity: str
    values: Hashes


class EdgeKey:
    """The secret of one ledger, in a file of its own (mode 0600): the database alone tells nothing about edges."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret

    @classmethod
    def read(cls, path: Path) -> EdgeKey:
        """The key in a file that only its owner can read."""
        try:
            if path.stat().st_mode & 0o077:
                raise StorageError(f"the ledger's key {path} can be read by others; chmod 600 {path}")
            secret = bytes.fromhex(path.read_text(encoding="ascii").strip())
        except (OSError, ValueError) as error:
            raise StorageError(f"cannot read the ledger's key {path}: {error}; restore it from its backup") from error
        if len(secret) != 32:
            raise StorageError(f"{path} is not the key of a ledger: it must hold 64 hexadecimal digits")
        return cls(secret)

    @classmethod
    def make(cls, path: Path) -> EdgeKey:
        """The key in a file, made now if there is none; of two processes that try, both get the same one."""
        if not path.exists():
            scratch = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
            try:
                handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(handle, "w", encoding="ascii") as file:
                    file.write(secrets.token_hex(32) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                if not path.exists():
                    os.link(scratch, path)
            except FileExistsError:
                pass
            except OSError as error:
                raise StorageError(f"cannot write the ledger's key {path}: {error.strerror or error}") from error
            finally:
                scratch.unlink(missing_ok=True)
        return cls.read(path)

    def seal(self, text: str) -> str:
        """A keyed fingerprint: equal for equal texts, meaningless without the key."""
        return hashlib.blake2b(text.encode(), digest_size=32, key=self.secret, person=b"edgeveil-seal").hexdigest()


def hash_edges(graph: Graph | StoredGraph, key: EdgeKey) -> EdgeHashes | None:
    """The hashes of all edges; None beyond `LIMIT` edges, where overlap with every other set has to be assumed."""
    if graph.num_edges > LIMIT:
        return None
    ids: Any = range(graph.num_nodes) if graph.node_ids is None else graph.node_ids.tolist()
    (u, v), nodes = graph.edge_index, _hash_nodes(ids, key)
    parts = [
        _hash_pairs(nodes[u[start : start + _CHUNK]], nodes[v[start : start + _CHUNK]], key)
        for start in range(0, len(u), _CHUNK)
    ]
    values: Hashes = np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.uint64)
    return EdgeHashes(f"{BY_ROW}{graph.num_nodes}" if graph.node_ids is None else "ids", values)


def _hash_nodes(ids: Any, key: EdgeKey) -> NDArray[Any]:
    blake, secret = hashlib.blake2b, key.secret
    digests = [blake(str(i).encode(), digest_size=16, key=secret, person=b"edgeveil-node").digest() for i in ids]
    return np.frombuffer(b"".join(digests), ">u8").reshape(-1, 2)


def _hash_pairs(first: NDArray[Any], second: NDArray[Any], key: EdgeKey) -> Hashes:
    """An edge is the hashes of its two nodes, the smaller one first."""
    later = (first[:, 0] > second[:, 0]) | ((first[:, 0] == second[:, 0]) & (first[:, 1] > second[:, 1]))
    first[later], second[later] = second[later], first[later]
    data, blake, secret = np.hstack([first, second]).tobytes(), hashlib.blake2b, key.secret
    digests = [
        blake(data[at : at + 32], digest_size=8, key=secret, person=b"edgeveil-edge").digest()
        for at in range(0, len(data), 32)
    ]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)
