"""Every benchmark, one after another: each prints ratios measured in one run and writes benchmarks/results/<name>.json.

Usage: python benchmarks/run.py [--quick] [name ...]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    names = [a for a in sys.argv[1:] if not a.startswith("--")]
    flags = [a for a in sys.argv[1:] if a.startswith("--")]
    known = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    single = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    failed = []
    for name in names or known:
        print(f"== {name}", flush=True)
        done = subprocess.run([sys.executable, str(known[name]), *flags], env={**os.environ, **single}, check=False)
        if done.returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
