"""The order of node ids: a function of the set of ids alone, so that it says nothing about edges."""

from __future__ import annotations

import re
from collections.abc import Iterable

from edgeveil.errors import GraphError

__all__ = ["DOUBT", "canonical_order", "check_public_nodes", "is_index", "plain_ids"]

DOUBT = "not public"  # key of the reader's word why a node table rests on the edge list
_WHOLE = re.compile(r"\d+(\.0+)?|")


def is_index(node: str) -> bool:
    """Whether an id is a whole number written the plain way (no sign, no leading zero)."""
    return node.isdecimal() and len(node) <= 18 and str(int(node)) == node


def plain_ids(ids: list[str]) -> list[str]:
    """Ids as they are, but whole numbers that a spreadsheet or a data frame wrote as 7.0 become 7."""
    if not any(node.endswith(".0") for node in ids[:100]) or not all(_WHOLE.fullmatch(node) for node in ids):
        return ids
    return [node.partition(".")[0] for node in ids]


def canonical_order(ids: Iterable[str]) -> list[str]:
    """Distinct ids, by value if all are whole numbers, else by code points."""
    distinct = set(ids)
    return sorted(distinct, key=int) if all(map(is_index, distinct)) else sorted(distinct)


def check_public_nodes(public: bool, name: str, doubt: str = "") -> None:
    """Refuse to publish under a promise about edges where the edges themselves say which nodes there are."""
    if doubt and not public:
        raise GraphError(f"the nodes of {name} are not public: {doubt}")
    if not public:
        raise GraphError(
            f"the nodes of {name} were read off its edges, so the list of nodes is itself a secret that no epsilon "
            "covers: a node with one edge is listed only if that edge exists. Give all nodes from a public source: "
            "--nodes FILE (one id per line), --features or --labels; in Python nodes= where files and NetworkX graphs "
            "are read, x, y or num_nodes in Graph.from_edges, or graph.with_public_nodes() if the nodes are public "
            "already"
        )
