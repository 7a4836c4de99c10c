"""Writes docs/fidelity-attacks.md from the figures that `fidelity_attacks.py` measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "fidelity-attacks.md"
INTRO = HERE / "fidelity_attacks_intro.md"
Row = dict[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [" | ".join(head), " | ".join("---" for _ in head), *(" | ".join(r) for r in rows)]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def summary(rows: list[Row]) -> str:
    """Agreement per table and dataset, for both variants."""
    count: dict[tuple[str, str], dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["agrees"] is not None:
            count[(row["table"], row["dataset"])][row["variant"]].append(row["agrees"])
    lines = []
    for (name, dataset), by in count.items():
        shares = [f"{sum(by[v])} of {len(by[v])}" if by[v] else "" for v in ("published", "correct")]
        lines.append((name, dataset, *shares))
    total = [ok for by in count.values() for ok in by["published"]]
    lines.append(("all", "", f"**{sum(total)} of {len(total)}**", ""))
    return table(("table", "dataset", "agree, as published", "agree, correct variant"), lines)


def spread(mean: float, sd: float | None, digits: int) -> str:
    """A figure as the papers print it."""
    return f"{mean:.{digits}f}" + ("" if sd is None else f" ± {sd:.{digits}f}")


def differing(rows: list[Row]) -> str:
    """Every cell beyond the tolerance, as published."""
    odd = [r for r in rows if r["variant"] == "published" and r["agrees"] is False]
    lines = []
    for r in odd:
        digits = 2 if r["metric"] == "auc" else 1
        where = ", ".join(str(r[k]) for k in ("degree", "belief") if r[k])
        lines.append((
            r["table"], r["dataset"], r["attack"], where, r["metric"], spread(r["printed"], r["printed_sd"], digits),
            spread(r["ours"], r["ours_sd"], digits),
        ))  # fmt: skip
    return table(("table", "dataset", "attack", "cell", "metric", "printed", "ours"), lines) if lines else "None.\n"


def cells(rows: list[Row]) -> str:
    """LinkTeller's own cells, printed beside both variants."""
    by: dict[tuple[str, ...], dict[str, Row]] = defaultdict(dict)
    for r in rows:
        if r["attack"] in ("linkteller", "random"):
            by[tuple(str(r[k]) for k in ("table", "dataset", "degree", "belief", "metric"))][r["variant"]] = r
    lines = []
    for key, both in by.items():
        p = both["published"]
        digits = 4 if key[0] == "V" else 2 if p["metric"] == "auc" else 1
        correct = both.get("correct")
        lines.append((
            *key, spread(p["printed"], p["printed_sd"], digits), spread(p["ours"], p["ours_sd"], digits),
            "" if correct is None else spread(correct["ours"], correct["ours_sd"], digits),
        ))  # fmt: skip
    head = ("table", "dataset", "degree", "belief", "metric", "printed", "as published", "correct variant")
    return table(head, lines)


def beyond(found: Row) -> str:
    """The measurements that no table has."""
    coarse = [
        (r["target"], r["answers"], *(f"{r[k]['auc']:.4f} / {r[k]['precision']:.3f}" for k in ("full", "grouped")),
         str(r["grouped"]["queries"]), "yes" if r["grouped"]["auc"] >= r["full"]["auc"] - 0.02 else "no")
        for r in found["coarse"]
    ]  # fmt: skip
    known = [(r["case"], str(r["queries"]), f"{r['auc']:.4f}", f"{r['precision']:.3f}") for r in found["knowledge"]]
    belief = [
        (
            r["how"],
            f"{r['belief']:.5f}",
            f"{r['belief'] / r['true']:.2f}",
            f"{r['precision']:.3f}",
            f"{r['recall']:.3f}",
        )
        for r in found["beliefs"]
    ]
    share = found["clusters"]
    single = [(r["attack"], f"{r['auc']:.3f}") for r in found["alone"]]
    parts = [
        "## Few queries and coarse answers\n\nAUC / precision at the true density. The full attack asks one question per "
        "node of the same target.\n",
        table(("target", "answers", "full", "grouped", "queries", "within 0.02"), coarse),
        "## Knowing less\n\nCora, GCN, 300 nodes.\n",
        table(("attacker", "queries", "AUC", "precision"), known),
        "## Density beliefs (App. E2)\n\nCora, GCN, 500 nodes; precision and recall at the belief.\n",
        table(("how", "belief", "belief / true", "precision", "recall"), belief),
        f"## What LSA2 finds\n\nOf the E best guesses on Cora, all pairs, {share['lsa2-post']:.1%} of LSA2-post's stay "
        f"inside one predicted class (LPGNet §5.4.1: almost 99 %), and {share['linkteller']:.1%} of LinkTeller's.\n",
        "## One node at a time (App. E5)\n\nCora, every node answered on its own one-node subgraph. LinkTeller is left with "
        "exact zeros. LSA2 is left with what features say about classes, as the MLP shows; no edge is in it.\n",
        table(("attack", "AUC"), single),
    ]
    return "\n".join(parts)


def write(store: Row) -> None:
    """The whole page from what is stored."""
    parts = [INTRO.read_text()]
    if "tables" in store:
        rows = store["tables"]
        parts += ["## Agreement\n", summary(rows), "## Beyond the tolerance, as published\n", differing(rows)]
    if "beyond" in store:
        parts.append(beyond(store["beyond"]))
    if "tables" in store:
        parts += ["## Every LinkTeller cell\n", cells(store["tables"])]
    PAGE.write_text("\n".join(parts))
