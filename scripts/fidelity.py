"""Keep measurements and renew the page of them.

python scripts/fidelity.py add STORE [STORE ...]   # samples of finished runs join those of the package, none twice
python scripts/fidelity.py write                   # docs/fidelity.md and docs/fidelity/*.csv from the package's samples
"""

from __future__ import annotations

import sys
from pathlib import Path

from edgeveil.papers.fidelity_page import page, write_cells
from edgeveil.papers.samples import FILE, Samples
from edgeveil.papers.studies import terms
from edgeveil.runs.store import Store

ROOT = Path(__file__).parents[1]
DATA = ROOT / "src" / "edgeveil" / "papers" / "data" / FILE
PAGE = ROOT / "docs" / "fidelity.md"


def add(stores: list[str]) -> None:
    """What the stores know about printed cells and studies, into the package's file."""
    samples = Samples.read(DATA.read_bytes())
    for path in stores:
        with Store(path, create=False) as store:
            print(f"{path}: {samples.add_store(store, terms())} new samples")
    samples.write(DATA)


def write() -> None:
    """The page's generated parts and the cells."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    write_cells(PAGE.parent / "fidelity")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["add", first, *rest]:
            add([first, *rest])
        case ["write"]:
            write()
        case _:
            sys.exit(__doc__)
