"""The bill of an edge set is the largest sum over any one edge: checked against counting edge by edge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgeveil as ev
from edgeveil.privacy.ledger import edges as edge_hashes
from edgeveil.privacy.ledger.edges import EdgeKey, hash_edges
from edgeveil.privacy.ledger.overlap import LARGE, UNKNOWN, Bill, Holding, bills, patterns_of
from tries import tries

KEY = EdgeKey(bytes(32))
SETS = st.lists(st.tuples(st.sets(st.integers(0, 12)), st.integers(0, 9), st.booleans()), min_size=1, max_size=5)


@given(SETS)
@settings(max_examples=tries(300), deadline=None)
def test_bills_are_the_largest_sum_over_any_edge(sets: list[tuple[set[int], int, bool]]) -> None:
    arrays = {f"s{i}": np.array(sorted(edges), np.uint64) for i, (edges, _, _) in enumerate(sets)}
    own = {f"s{i}": Bill(cost, 2 * cost, "why" if bad else "") for i, (_, cost, bad) in enumerate(sets)}
    patterns = set()
    for name, values in arrays.items():
        patterns |= patterns_of(name, values, [(n, v) for n, v in arrays.items() if n != name])
    found = bills([Holding(name, "ids", own[name]) for name in arrays], patterns)
    for name, values in arrays.items():
        worst = own[name]
        for edge in values:
            holders = [other for other in arrays if edge in arrays[other]]
            total = Bill(sum(own[n].epsilon for n in holders), sum(own[n].delta for n in holders))
            worst = worst.worst(total)
            worst = worst.worst(Bill(unbounded="why" if any(own[n].unbounded for n in holders) else ""))
        assert (found[name].epsilon, found[name].delta) == (worst.epsilon, worst.delta)
        assert bool(found[name].unbounded) == bool(worst.unbounded)


def test_what_cannot_be_compared_is_assumed_to_overlap() -> None:
    a, b = Holding("a", "ids", Bill(3)), Holding("b", "rows:9", Bill(4))
    assert bills([a, b], [])["a"].epsilon == 7 == bills([a, b], [])["b"].epsilon
    c = Holding("c", UNKNOWN, Bill(5))
    assert {n: x.epsilon for n, x in bills([a, b, c], []).items()} == {"a": 12, "b": 12, "c": 12}
    assert bills([a, Holding("c", UNKNOWN, Bill(0, 0, "served without a defence"))], [])["a"].unbounded


def test_row_numbers_show_what_is_shared_and_never_that_nothing_is() -> None:
    """The same people in another order of rows: not one row pair in common, and every edge has paid twice."""
    pairs = np.array([[0, 2, 4], [1, 3, 5]])
    graph, turned = (ev.Graph.from_edges(p, num_nodes=6) for p in (pairs, np.array([[0, 1, 4], [2, 3, 5]])))
    one, other = (hash_edges(g, KEY) for g in (graph, turned))
    assert one is not None and other is not None and not np.array_equal(one.values, other.values)
    a, b = Holding("a", "rows:6", Bill(3)), Holding("b", "rows:6", Bill(4))
    assert {n: x.epsilon for n, x in bills([a, b], []).items()} == {"a": 7, "b": 7}
    apart = Holding("b", "rows:6", Bill(4), frozenset({"a"}))
    assert {n: x.epsilon for n, x in bills([a, apart], []).items()} == {"a": 3, "b": 4}
    assert bills([a, apart], [frozenset({"a", "b"})])["a"].epsilon == 7, "what is seen counts against the owner's word"
    by_id, third = Holding("c", "ids", Bill(5)), Holding("d", "rows:9", Bill(1))
    assert bills([a, b, by_id, third], [])["c"].epsilon == 3 + 4 + 5 + 1 == bills([a, b, by_id, third], [])["d"].epsilon


def test_the_owners_word_counts_only_where_the_ledger_cannot_look() -> None:
    word = frozenset({"a"})
    a = Holding("a", UNKNOWN, Bill(3))
    assert bills([a, Holding("b", "ids", Bill(4), word)], [])["b"].epsilon == 4
    assert bills([a, Holding("b", "ids", Bill(4), word)], [])["a"].epsilon == 3
    assert bills([a, Holding("b", LARGE, Bill(4), word)], [])["a"].epsilon == 7
    seen = [Holding("a", "ids", Bill(3)), Holding("b", "ids", Bill(4), word)]
    assert bills(seen, [frozenset({"a", "b"})])["b"].epsilon == 7


def test_the_order_of_rows_does_not_matter_and_the_key_does() -> None:
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 30, (2, 60))
    names = np.array([f"person {i}" for i in range(30)])
    graph = ev.Graph.from_edges(pairs, num_nodes=30, node_ids=names)
    order = rng.permutation(30)
    place = np.argsort(order)
    shuffled = ev.Graph.from_edges(place[pairs], num_nodes=30, node_ids=names[order])
    assert graph.edge_index.tolist() != shuffled.edge_index.tolist()
    one, other = hash_edges(graph, KEY), hash_edges(shuffled, KEY)
    assert one is not None and other is not None and one.identity == "ids"
    assert np.array_equal(one.values, other.values) and len(one.values) == graph.num_edges
    keyed = hash_edges(graph, EdgeKey(b"1" * 32))
    assert keyed is not None and not np.intersect1d(one.values, keyed.values).size
    rows = hash_edges(ev.Graph.from_edges(pairs, num_nodes=30), KEY)
    assert rows is not None and rows.identity == "rows:30"


def test_too_many_edges_are_not_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_hashes, "LIMIT", 3)
    graph = ev.Graph.from_edges(np.array([[0, 1, 2, 3], [1, 2, 3, 4]]))
    assert hash_edges(graph, KEY) is None
    assert hash_edges(graph.with_edges(np.zeros((2, 0), np.int64)), KEY) is not None
