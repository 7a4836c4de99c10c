"""What stored answers give away by being alike, by how coarse they are. No question under changed features is asked.

An attacker compares the answers or their logarithms (`lsa2-post`), or has the nodes' features too and knows the edges of
another neighbourhood, from which `learned-links` learns how much likeness of answers and of features is worth. Of answers
and logarithms, the reading that serves the attacker better counts.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
from link_stealing import Scene

from edgeveil.attacks.run_attack import attack
from edgeveil.metrics import at_belief
from edgeveil.release.release import Release
from edgeveil.release.target import Target
from edgeveil.serve.policy import OutputPolicy

OUTPUTS = {
    "labels": OutputPolicy("labels"),
    "likeliest class, 2 decimals": OutputPolicy(top_k=1, decimals=2),
    "probabilities, 1 decimal": OutputPolicy(decimals=1),
    "probabilities, 2 decimals (the default)": OutputPolicy(decimals=2),
    "probabilities in full": OutputPolicy(),
    "logits": OutputPolicy("logits"),
}


class StoredAnswers(Target):
    """A server that answers for stored features only, as its client reads it.

    Classes that it does not name count as 0. `logs`: rows are logarithms of the answered probabilities (nothing below
    half a unit of their last decimal), as logits are already; attacks take them as they are.
    """

    def __init__(self, release: Release, policy: OutputPolicy, logs: bool = False) -> None:
        super().__init__()
        answer = policy.apply(release.predict())
        self.num_nodes, self.features, self.answer_kind = release.num_nodes, release.matrix, policy.kind
        self._rows: Any = answer.labels if answer.values is None else answer.values
        if answer.classes is not None:
            self._rows = np.zeros((release.num_nodes, release.num_classes))
            np.put_along_axis(self._rows, answer.classes, answer.values, axis=1)
        if logs and policy.kind == "probabilities":
            step = 1e-15 if policy.decimals is None else 10.0**-policy.decimals
            self._rows = np.log(np.maximum(self._rows, step / 2))
        if logs and policy.kind != "labels":
            self.answer_kind = "probabilities"

    def _answer(self, features: Any, nodes: Any, induced: bool) -> Any:
        return self._rows if nodes is None else self._rows[nodes]


def floor(scenes: list[Scene], release: Path) -> dict[str, Any]:
    """Mean F1 over the node sets: of LinkTeller's exact influences, of features alone, and by kind of answer."""
    loaded = Release.load(release)

    def f1(name: str, target: Any, **given: Any) -> float:
        return statistics.mean(_f1(scene, attack(target, name, nodes=scene.nodes, **given)) for scene in scenes)

    def learned(target: Any) -> float:
        each = zip(scenes, [*scenes[1:], scenes[0]], strict=True)
        found = (attack(target, "learned-links", nodes=s.nodes, **_known(s, other)) for s, other in each)
        return statistics.mean(_f1(scene, one) for scene, one in zip(scenes, found, strict=True))

    rows = {}
    for name, policy in OUTPUTS.items():
        read = [StoredAnswers(loaded, policy, logs) for logs in (False, True)]
        alike = max(f1("lsa2-post", target) for target in read)
        rows[name] = {"alike": alike, "with_features": max(learned(target) for target in read)}
    features = f1("lsa2-attr", StoredAnswers(loaded, OutputPolicy()))
    return {
        "node_sets": len(scenes),
        "open": f1("linkteller", loaded, mode="exact"),
        "features": features,
        "rows": rows,
    }


def _f1(scene: Scene, found: Any) -> float:
    truth = scene.truth.has_edges(*found.pairs)
    return float(at_belief(found.scores, truth, truth.mean())["f1"])


def _known(scene: Scene, other: Scene) -> dict[str, Any]:
    """Pairs of another neighbourhood whose truth the attacker knows; none is among the attacked ones."""
    upper = np.triu_indices(len(other.nodes), 1)
    pairs = np.sort(np.stack([other.nodes[upper[0]], other.nodes[upper[1]]]), axis=0)
    pairs = pairs[:, ~np.isin(pairs, scene.nodes).all(axis=0)]
    edges = other.truth.has_edges(*pairs)
    return {"known_edges": pairs[:, edges], "known_non_edges": pairs[:, ~edges]}


def markdown(facts: dict[str, Any]) -> list[str]:
    """The table of docs/guard.md."""
    opened = facts["open"]

    def cell(value: float) -> str:
        return f"{value:.2f} ({value / opened:.2f})"

    lines = [
        f"What stored answers give by being alike, {facts['node_sets']} sets of nodes; in brackets as a share of "
        f"LinkTeller's {opened:.2f} on the same nodes. Features alone, without any server: {cell(facts['features'])}.",
        "",
        "| F1, by what is answered | answers alone | with features, learned on another neighbourhood |",
        "|---|---|---|",
    ]
    return [*lines, *(f"| {n} | {cell(r['alike'])} | {cell(r['with_features'])} |" for n, r in facts["rows"].items())]
