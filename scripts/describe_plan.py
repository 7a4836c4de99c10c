"""Write the field tables of docs/sweeps.md from the plan's own descriptions: python scripts/describe_plan.py"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel

from edgeveil.runs.plan import Grid, Plan
from edgeveil.runs.run_config import AttackConfig

PAGE = Path(__file__).parents[1] / "docs" / "sweeps.md"


def table(model: type[BaseModel]) -> str:
    """One line per field: name, default, meaning."""
    lines = ["| field | default | meaning |", "| --- | --- | --- |"]
    for name, field in model.model_fields.items():
        default = "required" if field.is_required() else _show(field.get_default(call_default_factory=True))
        lines.append(f"| `{name}` | {default} | {field.description} |")
    return "\n".join(lines)


def _show(value: object) -> str:
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, tuple):
        return ", ".join(map(_show, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Replace what stands between the markers."""
    text = PAGE.read_text(encoding="utf-8")
    for name, model in (("plan", Plan), ("grid", Grid), ("attack", AttackConfig)):
        new = f"<!-- {name} -->\n{table(model)}\n<!-- end {name} -->"
        text = re.sub(f"<!-- {name} -->.*?<!-- end {name} -->", lambda _, new=new: new, text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
