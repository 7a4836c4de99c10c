"""Generated graphs: heavy tails, homophily, features that tell classes apart, the same files from the same seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from edgeveil.errors import InputError
from edgeveil.graph.stored.graph_in_files import open_graph
from edgeveil.graph.stored.heavy_tailed import HeavyTailed


def test_the_graph_is_heavy_tailed_and_homophilous(tmp_path: Path) -> None:
    made = HeavyTailed(nodes=20_000, edges=200_000, seed=3)
    edges, nodes, labels = made.write(tmp_path)
    with open_graph(edges, nodes, labels, threads=1) as stored:
        degrees, same = stored.degrees(), stored.homophily()
        assert stored.num_nodes == 20_000 and stored.nodes.num_classes == 8
        assert 0.8 * 200_000 < stored.num_edges < 200_000
    assert degrees.max() > 50 * degrees.mean()
    # P(degree > d) falls like d^-(exponent - 1): a tenfold degree is 10^1.5 times rarer.
    ratio = (degrees > 20).sum() / (degrees > 200).sum()
    assert 15 < ratio < 70
    assert same is not None and 0.55 < same < 0.75
    x = np.concatenate([block for _, block in made.feature_blocks()])
    y = made.labels(np.arange(20_000))
    centres = np.stack([x[y == k].mean(axis=0) for k in range(8)])
    assert np.linalg.norm(centres[0] - centres[1]) > 0.5


def test_same_seed_same_rows(tmp_path: Path) -> None:
    tables = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        edges, *_ = HeavyTailed(nodes=100, edges=500, seed=seed).write(tmp_path / name)
        tables.append(pq.read_table(edges))
    assert tables[0].equals(tables[1]) and not tables[0].equals(tables[2])


def test_nonsense_is_refused() -> None:
    with pytest.raises(InputError, match="exponent"):
        HeavyTailed(nodes=100, edges=10, exponent=2.0)
    with pytest.raises(InputError, match="two nodes per class"):
        HeavyTailed(nodes=3, edges=10)
