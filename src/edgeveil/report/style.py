"""One look for every figure: matplotlib draws, the page's CSS colours, so a figure follows light and dark."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from edgeveil.defences.defence import face
from edgeveil.errors import MissingExtra

__all__ = [
    "DARK",
    "GRID",
    "INK",
    "LIGHT",
    "MARKERS",
    "MUTED",
    "SERIES",
    "SOFT",
    "canvas",
    "ink_for",
    "legend",
    "mark",
    "standalone",
    "to_svg",
]

# Colours that matplotlib writes into the SVG and that `to_svg` then turns into CSS variables.
INK, MUTED, GRID, SOFT, PAPER = "#010101", "#020202", "#030303", "#040404", "#050505"
SERIES = [f"#0100{i:02x}" for i in range(1, 12)]
_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", SOFT: "--soft", PAPER: "--paper"} | {
    colour: f"--c{i}" for i, colour in enumerate(SERIES, 1)
}
LIGHT = {
    "--ink": "#1d2330", "--muted": "#5b6475", "--grid": "#e3e6ec", "--soft": "#e6f3ea", "--paper": "#ffffff",
    "--c1": "#b3262a", "--c2": "#5b6475", "--c3": "#a45600", "--c4": "#7a3e9d", "--c5": "#1b6ca8", "--c6": "#0b7a53",
    "--c7": "#7d6200", "--c8": "#a02f73", "--c9": "#3f51b5", "--c10": "#00707f", "--c11": "#6d4630",
}  # fmt: skip
DARK = {
    "--ink": "#e8ebf1", "--muted": "#a5aebf", "--grid": "#323a49", "--soft": "#183527", "--paper": "#12161e",
    "--c1": "#ff7f7f", "--c2": "#a5aebf", "--c3": "#ffab5c", "--c4": "#cfa0f0", "--c5": "#6db8f2", "--c6": "#5fd0a0",
    "--c7": "#e0c24e", "--c8": "#f08cc4", "--c9": "#9fa8ff", "--c10": "#4fd3e6", "--c11": "#d9b59c",
}  # fmt: skip
MARKERS = "osD^vPh<>X*"
OTHER = 8  # slot of a defence that has none


def ink_for(defence: str) -> tuple[str, str]:
    """Colour and marker of a defence, the same in every figure."""
    found = face(defence)[1]
    slot = OTHER if found is None else found
    return SERIES[slot], MARKERS[slot]


def mark(artist: Any, defence: str, release: str = "") -> None:
    """Say which defence, or which release of it, an artist shows; the page's script finds it by that."""
    artist.set_gid(f"mark|{defence}|{release}")


def legend(axes: Any, **options: Any) -> None:
    """A legend below or beside the axes whose entries are marked like what they stand for."""
    handles, _ = axes.get_legend_handles_labels()
    drawn = axes.legend(**options)
    for source, handle, text in zip(handles, drawn.legend_handles, drawn.get_texts(), strict=True):
        gid = (source.get_gid() if hasattr(source, "get_gid") else source.patches[0].get_gid()) or ""
        if gid:
            defence = gid.split("|")[1]
            mark(handle, defence)
            mark(text, defence)


@contextmanager
def canvas(name: str, width: float = 5.5, height: float = 3.7, rows: int = 1) -> Iterator[tuple[Any, Any]]:
    """A matplotlib figure and its axes in our style; `name` keeps ids unique and files byte-stable."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("the HTML report", "report") from error
    style: Any = {
        "svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif", "font.size": 10.5,
        "text.color": INK, "axes.edgecolor": MUTED, "axes.labelcolor": INK, "axes.facecolor": "none",
        "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
        "grid.color": GRID, "grid.linewidth": 0.8, "axes.grid": True, "axes.axisbelow": True,
        "axes.spines.top": False, "axes.spines.right": False, "figure.facecolor": "none", "legend.frameon": False,
        "lines.linewidth": 1.8, "lines.markersize": 6,
    }  # fmt: skip
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, 1) if rows > 1 else figure.subplots()
        yield figure, axes


def to_svg(figure: Any, name: str, title: str, description: str) -> str:
    """Inline SVG with CSS colours, unique ids, a title and a description for screen readers."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    figure.set_canvas(FigureCanvasSVG(figure))
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")  # placed: savefig would draw all of it once more to place it
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    svg = re.sub(r'id="mark\|([^|"]*)\|([^"]*)"', r'class="mark" data-defence="\1" data-release="\2"', svg)
    svg = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(href="|url\()#', rf"\1#{name}-", svg)
    svg = re.sub(r"font: ([\d.]+)px [^;]*", r"font: \1px var(--sans)", svg)
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()  # type: ignore[union-attr]
    head = (
        f'<svg role="img" aria-labelledby="{name}-t {name}-d" viewBox="0 0 {width} {height}" '
        f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f'<title id="{name}-t">{html.escape(title)}</title><desc id="{name}-d">{html.escape(description)}</desc>'
    )
    return re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1)


def standalone(svg: str) -> str:
    """The figure as a file of its own: light colours, a white ground, no CSS variables."""
    for variable, colour in LIGHT.items():
        svg = svg.replace(f"var({variable})", colour)
    svg = svg.replace("var(--sans)", "'DejaVu Sans', sans-serif")
    ground = f'<rect width="100%" height="100%" fill="{LIGHT["--paper"]}"/>'
    return re.sub(r"</desc>", lambda _: "</desc>" + ground, svg, count=1)
