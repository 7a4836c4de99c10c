"""Audit a graph of your own, in a few lines.

Run: python examples/own_data.py
"""

import numpy as np

import edgeveil as ev

rng = np.random.default_rng(0)
n = 150
team = np.arange(n) % 3
u, v = np.triu_indices(n, 1)
friends = rng.random(len(u)) < np.where(team[u] == team[v], 0.12, 0.01)
features = rng.normal(size=(n, 12)) + np.eye(3, 12)[team]
order = rng.permutation(n)
graph = ev.Graph.from_edges(
    np.stack([u[friends], v[friends]]),
    x=features,
    y=team,
    train_mask=np.isin(np.arange(n), order[:75]),
    val_mask=np.isin(np.arange(n), order[75:110]),
    test_mask=np.isin(np.arange(n), order[110:]),
)

audit = ev.audit(graph, defences=["none", "mlp", "lapgraph", "lpgnet-1"], epsilons=[4.0], attacks=["linkteller"])
print(audit)

# The same step by step, with what an attacker gets from each release:
for defence, epsilon in (("none", None), ("mlp", None), ("lapgraph", 4.0), ("lpgnet-1", 4.0)):
    release = ev.defend(graph, defence, epsilon=epsilon, model="mlp" if defence == "mlp" else "gcn", seed=0)
    result = ev.attack(release, "linkteller")
    truth = graph.has_edges(*result.pairs)
    rest = result.rest(graph.num_edges, int(truth.sum()))
    found = ev.metrics.at_belief(result.scores, truth, graph.density, rest)["recall"]
    print(f"{defence:10s} accuracy {release.utility('test')['accuracy']:.2f}, edges found {100 * found:.0f} %")
