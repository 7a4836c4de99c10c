"""Execute a notebook's cells in order and keep what they show; Jupyter is not needed.

    python scripts/notebook.py examples/own_pyg_model.ipynb          # run and write outputs back
    python scripts/notebook.py --check examples/own_pyg_model.ipynb  # run and compare

A check fails if a cell fails or shows something else than the file. A cell that the metadata tags ``volatile`` (times,
folders) only has to run.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def show(value: Any) -> dict[str, Any] | None:
    """The output of a cell's last expression, as Jupyter stores it."""
    if value is None:
        return None
    data = {"text/plain": lines(repr(value))}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = lines(value._repr_html_())
    return {"output_type": "execute_result", "data": data, "metadata": {}}


def lines(text: str) -> list[str]:
    """Text as the list of lines that the format wants."""
    return text.splitlines(keepends=True)


def execute(source: str, names: dict[str, Any], label: str) -> list[dict[str, Any]]:
    """Run one cell; an error is the caller's."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, label, "exec"), names)
        value = eval(compile(ast.Expression(last.value), label, "eval"), names) if last is not None else None
    found = [{"output_type": "stream", "name": "stdout", "text": lines(said.getvalue())}] if said.getvalue() else []
    result = show(value)
    return found if result is None else [*found, result]


def run(path: Path, *, check: bool = False) -> list[str]:
    """Run every cell; the complaints of a check. Without `check` the file gets the new outputs."""
    book = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    complaints, count = [], 0
    for cell in book["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        new = execute("".join(cell["source"]), names, f"{path.name}, cell {count}")
        for output in new:
            if output["output_type"] == "execute_result":
                output["execution_count"] = count
        if check and "volatile" not in cell["metadata"].get("tags", []) and new != cell["outputs"]:
            complaints.append(f"{path.name}: cell {count} shows something else than the file")
        cell["outputs"], cell["execution_count"] = new, count
    if not check:
        path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return complaints


if __name__ == "__main__":
    checking = "--check" in sys.argv
    found = [c for name in sys.argv[1:] if name != "--check" for c in run(Path(name), check=checking)]
    print("\n".join(found) or "every cell ran")
    sys.exit(bool(found) and checking)
