"""Renew the package's run costs from stores of finished runs: python scripts/pack_costs.py STORE [STORE ...]"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from edgeveil.runs.costs import pack
from edgeveil.runs.store import Store

TARGET = Path(__file__).parents[1] / "src" / "edgeveil" / "runs" / "data" / "costs.json"


def main(paths: list[str]) -> None:
    """Average processor seconds per kind of run over all stores; kinds that no store has keep their known cost."""
    measured = []
    for path in paths:
        with Store(path, create=False) as store:
            measured += store.seconds()
    known = json.loads(TARGET.read_text(encoding="utf-8"))
    TARGET.write_text(json.dumps(pack(measured, known), indent=1) + "\n", encoding="utf-8")
    print(f"{len(measured)} runs packed into {TARGET.name}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
