"""Pack the published figures of the three papers into the package: python scripts/pack_reference.py SOURCE_FOLDER.

SOURCE_FOLDER holds one tidy CSV per paper (one printed figure per line). Only figures and what identifies them are
kept, in our own names; cells that the papers themselves contradict get a code (see `edgeveil.papers.published`).
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src" / "edgeveil" / "papers" / "data" / "published.csv.gz"
COLUMNS = (
    "paper", "table", "dataset", "model", "mechanism", "epsilon", "degree", "belief", "layers", "alpha", "delta",
    "attack", "metric", "mean", "std", "runs", "unit", "doubt",
)  # fmt: skip
NAMES = {
    "amazonphoto": "amazon-photo",
    "gconv": "graphconv",
    "gt": "transformer",
    "all (average)": "all",
    "linkteller+lsa2": "linkteller-lsa2",
}
DOUBTS = {
    "whole 'high' block": "L1",
    "cannot both be right": "L2",
    "suspicious std": "P5",
    "look swapped": "G2",
    "opposite sign": "G3",
    "does not fit delta_auc": "G3",
    "should be 0 by definition": "G5",
}
KNOWN = {  # contradictions between tables: (table, dataset, model or mechanism, degree or epsilon) -> code
    ("XII(b)", "twitch-ptbr", "none", "unconstrained"): "L3",
    ("XII(b)", "twitch-fr", "none", "high"): "L3",
    ("XII(b)", "twitch-de", "none", "high"): "L3",
    ("XII(b)", "twitch-engb", "none", "unconstrained"): "L3",
    ("6", "citeseer", "lapgraph", "9"): "P1",
    ("11", "flickr", "lpgnet", "9"): "P1",
    ("1(b)", "amazon-photo", "gp", "0.1"): "G4",
}


def name(text: str) -> str:
    """Our spelling of a printed name."""
    key = text.strip().lower().replace("_", "-")
    return NAMES.get(key, key)


def doubt(row: dict[str, str]) -> str:
    """Code of a known contradiction, or nothing."""
    for words, code in DOUBTS.items():
        if words in row["note"]:
            return code
    for last in (row["degree"], row["epsilon"]):
        code = KNOWN.get((row["table"], name(row["dataset"]), name(row["mechanism"]), last), "")
        if code == "P1" and row["metric"] != "auc" and row["table"] == "6":
            continue
        if code:
            return code
    return ""


def convert(row: dict[str, str]) -> dict[str, str]:
    """One line of the package's file."""
    same = ("table", "epsilon", "degree", "belief", "layers", "alpha", "delta", "metric", "mean", "std", "unit")
    out = {key: row[key] for key in same}
    out |= {key: name(row[key]) for key in ("paper", "dataset", "model", "mechanism", "attack")}
    out["epsilon"] = name(row["epsilon"])
    return out | {"runs": row["n_runs"], "doubt": doubt(row)}


def main(folder: Path) -> None:
    """Read the three files and write one."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    count = 0
    for paper in ("linkteller", "lpgnet", "graphprivatizer"):
        with (folder / f"{paper}.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                writer.writerow(convert(row))
                count += 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    with TARGET.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=9) as file:
        file.write(text.getvalue().encode())
    print(f"{count} figures, {TARGET.stat().st_size:,} bytes in {TARGET.name}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
