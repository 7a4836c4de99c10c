"""The kernels behind the sparse product and the rule that chooses between them; one thread.

    python benchmarks/bench_spmm.py [--quick]

Square random matrices of several sizes, row lengths and widths of the right-hand side. For each: processor milliseconds
of MKL's CSR product, of torch's reduce kernel, of SciPy and of gather plus index_add (message passing), and how much the
rule loses against the faster of the first two.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from edgeveil.models.kernels.spmm import SparseMatrix, csr_product

RESULTS = Path(__file__).parent / "results"
SMALL = [(4_000, 5), (4_000, 30)]


def best_ms(work: Callable[[], Any], repetitions: int = 4) -> float:
    """Best processor milliseconds after one warm-up."""
    found = float("inf")
    for turn in range(repetitions + 1):
        started = time.process_time()
        work()
        if turn:
            found = min(found, 1e3 * (time.process_time() - started))
    return found


def message_passing(matrix: SparseMatrix, x: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Gather, scale, scatter: what an edge_index path does."""
    coo = matrix.csr.tocoo()
    row, col = torch.tensor(coo.row, dtype=torch.int64), torch.tensor(coo.col, dtype=torch.int64)
    values = torch.tensor(coo.data, dtype=torch.float32)[:, None]
    return lambda: torch.zeros(matrix.shape[0], x.shape[1]).index_add_(0, row, x[col] * values)


def measure(n: int, per_row: int, width: int) -> dict[str, Any]:
    """All kernels on one size."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, n, n * per_row, dtype=np.int32)
    csr = sp.csr_matrix((np.ones(len(columns), np.float32), columns, np.arange(0, len(columns) + 1, per_row)), (n, n))
    csr.sum_duplicates()
    matrix, x = SparseMatrix(csr, symmetric=False), torch.randn(n, width)
    tensor = matrix.tensor(torch.float32)
    row: dict[str, Any] = {"nodes": n, "per_row": per_row, "width": width}
    row["mkl"] = best_ms(lambda: tensor @ x)
    row["reduce"] = best_ms(lambda: torch.sparse.mm(tensor, x, reduce="sum"))
    row["scipy"] = best_ms(lambda: csr @ x.numpy())
    row["message_passing"] = best_ms(message_passing(matrix, x), 2)
    row["rule"] = best_ms(lambda: csr_product(tensor, x))
    row["loss"] = row["rule"] / min(row["mkl"], row["reduce"]) - 1
    row["ratio"] = row["message_passing"] / row["rule"]
    return row


def main(argv: list[str] | None = None) -> None:
    """Print the table and keep it as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args(argv).quick
    torch.set_num_threads(1)
    sizes = SMALL if quick else [*SMALL, (8_000, 200), (80_000, 5), (80_000, 12), (80_000, 30)]
    rows = [measure(n, per_row, width) for n, per_row in sizes for width in (2, 16, 256)]
    print("   nodes  per row  width      mkl   reduce    scipy  messages    rule  (ms)")
    for r in rows:
        print(
            f"{r['nodes']:8,} {r['per_row']:8} {r['width']:6} {r['mkl']:8.2f} {r['reduce']:8.2f} {r['scipy']:8.2f} "
            f"{r['message_passing']:9.2f} {r['rule']:7.2f}"
        )
    median = float(np.median([r["ratio"] for r in rows]))
    print(
        f"rule against message passing: median {median:.1f}x; worst loss of the rule {100 * max(r['loss'] for r in rows):.0f} %"
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "spmm.json").write_text(
        json.dumps({"quick": quick, "rows": rows, "median_ratio": median}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
