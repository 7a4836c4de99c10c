"""What is asked of an edge table, as SQL that DuckDB and Spark both run; nothing here knows who executes it.

Views: ``given`` (a, b: the two ends as the owner wrote them), ``nodes`` (node, id), ``edges`` (u < v: every undirected
edge once), ``clusters`` (node, cluster), ``chosen`` (node), ``candidates`` (u < v). Every text is a function of public
sizes alone.
"""

from __future__ import annotations

__all__ = [
    "EDGES",
    "INCIDENT",
    "NEIGHBOURS",
    "NON_EDGES",
    "NUMBER_OF_EDGES",
    "NUMBER_OF_ROWS",
    "ORDERED",
    "SAME_CLUSTER",
    "WITHIN",
    "cluster_counts",
    "degrees",
    "simple_edges",
    "stray_ids",
]

_BOTH = "(SELECT u AS node, v AS other FROM edges UNION ALL SELECT v AS node, u AS other FROM edges)"
_NUMBERED = "SELECT a AS x, b AS y FROM given"
_NAMED = (
    "SELECT s.node AS x, t.node AS y FROM given e "
    "JOIN nodes s ON s.id = CAST(e.a AS STRING) JOIN nodes t ON t.id = CAST(e.b AS STRING)"
)

NUMBER_OF_ROWS = "SELECT count(*) AS n FROM given"
NUMBER_OF_EDGES = "SELECT count(*) AS n FROM edges"
EDGES = "SELECT u, v FROM edges"
ORDERED = "SELECT u, v FROM edges ORDER BY u, v"
"""All edges in the order of their pair ranks."""

NEIGHBOURS = f"SELECT DISTINCT e.other AS node FROM {_BOTH} e JOIN chosen c ON c.node = e.node"
"""Every node next to a chosen one."""

WITHIN = "SELECT e.u AS u, e.v AS v FROM edges e JOIN chosen a ON a.node = e.u JOIN chosen b ON b.node = e.v"
"""The edges with both ends chosen."""

INCIDENT = f"SELECT e.node AS node, count(*) AS n FROM {_BOTH} e JOIN chosen c ON c.node = e.node GROUP BY e.node"
"""The degrees of the chosen nodes, those without edges left out."""

NON_EDGES = "SELECT c.u AS u, c.v AS v FROM candidates c LEFT JOIN edges e ON e.u = c.u AND e.v = c.v WHERE e.u IS NULL"
"""The candidate pairs that are no edges."""

SAME_CLUSTER = (
    "SELECT count(*) AS n, sum(CASE WHEN a.cluster = b.cluster THEN 1 ELSE 0 END) AS same FROM edges e "
    "JOIN clusters a ON a.node = e.u JOIN clusters b ON b.node = e.v WHERE a.cluster >= 0 AND b.cluster >= 0"
)
"""How many edges have labelled ends, and how many of them stay inside a class."""


def simple_edges(num_nodes: int, *, numbered: bool) -> str:
    """Every undirected edge once with u < v: ids mapped to numbers, loops dropped, directions and repeats merged."""
    kind = "INT" if num_nodes < 2**31 else "BIGINT"
    return (
        f"SELECT DISTINCT CAST(least(p.x, p.y) AS {kind}) AS u, CAST(greatest(p.x, p.y) AS {kind}) AS v "
        f"FROM ({_NUMBERED if numbered else _NAMED}) p WHERE p.x <> p.y"
    )


def stray_ids(num_nodes: int, *, numbered: bool) -> str:
    """One edge (a, b) with an end (number `wrong`) that is no node of the public list, or is missing; else no row."""
    if numbered:
        bad = [f"(e.{end} IS NULL OR e.{end} < 0 OR e.{end} >= {int(num_nodes)})" for end in "ab"]
        joined = "given e"
    else:
        bad = ["s.id IS NULL", "t.id IS NULL"]
        joined = (
            "given e LEFT JOIN nodes s ON s.id = CAST(e.a AS STRING) LEFT JOIN nodes t ON t.id = CAST(e.b AS STRING)"
        )
    shown = f"CAST(e.a AS STRING) AS a, CAST(e.b AS STRING) AS b, CASE WHEN {bad[0]} THEN 0 ELSE 1 END AS wrong"
    return f"SELECT {shown} FROM {joined} WHERE {bad[0]} OR {bad[1]} LIMIT 1"


def degrees() -> str:
    """The number of neighbours of every node that has any."""
    return f"SELECT e.node AS node, count(*) AS n FROM {_BOTH} e GROUP BY e.node"


def cluster_counts(num_clusters: int) -> str:
    """How many neighbours each node has in each cluster (LPGNet Alg. 4, before the noise); zero counts are left out.

    A cell is node * C + cluster: one whole number is a quicker key than two.
    """
    cells = (
        f"SELECT CAST(e.node AS BIGINT) * {int(num_clusters)} + c.cluster AS cell "
        f"FROM {_BOTH} e JOIN clusters c ON c.node = e.other"
    )
    return f"SELECT k.cell AS cell, count(*) AS n FROM ({cells}) k GROUP BY k.cell"
