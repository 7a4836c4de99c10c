"""What was measured for the printed figures, kept in the package so that nothing is measured twice.

One JSON line per run (its settings without seeds, and per figure the value of every sample) and per printed cell of
which only mean, population deviation and number of samples are left.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from edgeveil.papers.books import BOOKS, every_cell
from edgeveil.papers.published import Published
from edgeveil.papers.recipes import Sample, Term, run_key
from edgeveil.runs.run_config import RunConfig, canonical_json
from edgeveil.runs.store import Store

__all__ = ["FILE", "Kept", "Samples", "asked", "cell_key", "measured"]

FILE = "measured.jsonl.gz"
IDENTITY = (
    "paper", "table", "dataset", "model", "mechanism", "epsilon", "degree", "belief", "layers", "alpha", "delta",
    "attack", "metric",
)  # fmt: skip
CellKey = tuple[str, ...]


@dataclass(frozen=True)
class Kept:
    """What is left of the samples behind one cell, in the printed unit."""

    mean: float
    std: float
    runs: int


def cell_key(p: Published) -> CellKey:
    """What identifies a printed figure."""
    return tuple(str(getattr(p, name)) for name in IDENTITY)


@dataclass
class Samples:
    """`runs`: by run (`run_key`) and figure (`Term.figure`) the value of every sample. `sources`: code and date."""

    runs: dict[str, dict[str, dict[Sample, float]]] = field(default_factory=dict)
    sources: dict[str, set[str]] = field(default_factory=dict)
    cells: dict[tuple[CellKey, str], Kept] = field(default_factory=dict)

    def of(self, term: Term) -> Mapping[Sample, float]:
        """The samples of a term."""
        return self.runs.get(run_key(term.run), {}).get(term.figure, {})

    def add(self, key: str, figure: str, values: Mapping[Sample, float], source: str) -> int:
        """Keep samples that are not there yet; how many."""
        known = self.runs.setdefault(key, {}).setdefault(figure, {})
        new = {sample: float(f"{value:.6g}") for sample, value in values.items() if sample not in known}
        known |= new
        if new:
            self.sources.setdefault(key, set()).add(source)
        return len(new)

    def add_store(self, store: Store, terms: Mapping[str, Iterable[Term]]) -> int:
        """Keep what a store's finished runs say about these terms (by run); how many samples were new."""
        count = 0
        for name in sorted(store.done()):
            record = store.record(name)
            run = RunConfig.model_validate(record.config)
            source = f"{record.code} {str(record.provenance.get('finished', ''))[:10]}".strip()
            for term in terms.get(run_key(run), ()):
                found = term.values(run.seed, record.rows, record.figures)
                count += self.add(run_key(run), term.figure, found, source)
        return count

    def write(self, path: Path) -> None:
        """Lines in a fixed order, so that equal samples give an equal file."""
        lines = [
            canonical_json({"run": json.loads(key), "figures": _plain(figures), "source": sorted(self.sources[key])})
            for key, figures in sorted(self.runs.items())
        ]
        lines += [
            canonical_json({"cell": list(key), "variant": variant, "mean": k.mean, "std": k.std, "runs": k.runs})
            for (key, variant), k in sorted(self.cells.items())
        ]
        path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), 9, mtime=0))

    @classmethod
    def read(cls, data: bytes) -> Samples:
        """Inverse of `write`."""
        found = cls()
        for line in gzip.decompress(data).decode().splitlines():
            entry = json.loads(line)
            if "cell" in entry:
                kept = Kept(entry["mean"], entry["std"], entry["runs"])
                found.cells[tuple(entry["cell"]), entry["variant"]] = kept
                continue
            key = canonical_json(entry["run"])
            found.runs[key] = {name: _samples(values) for name, values in entry["figures"].items()}
            found.sources[key] = set(entry["source"])
        return found


def _plain(figures: Mapping[str, Mapping[Sample, float]]) -> dict[str, dict[str, float]]:
    return {
        name: {str(seed) if sample is None else f"{seed}/{sample}": v for (seed, sample), v in values.items()}
        for name, values in figures.items()
    }


def _samples(values: Mapping[str, Any]) -> dict[Sample, float]:
    out: dict[Sample, float] = {}
    for name, value in values.items():
        seed, slash, sample = name.partition("/")
        out[int(seed), int(sample) if slash else None] = float(value)
    return out


@cache
def measured() -> Samples:
    """The samples kept in this package."""
    return Samples.read((files("edgeveil.papers") / "data" / FILE).read_bytes())


@cache
def asked() -> Mapping[str, tuple[Term, ...]]:
    """Every term of a printed cell, by its run."""
    found: dict[str, dict[str, Term]] = {}
    for book in BOOKS.values():
        for table in book.tables():
            for cell in every_cell(book, table):
                for recipe in cell.recipes.values():
                    for term in recipe.terms:
                        found.setdefault(run_key(term.run), {})[term.figure] = term
    return {key: tuple(terms.values()) for key, terms in found.items()}
