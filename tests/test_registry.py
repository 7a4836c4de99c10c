"""Registries: register by decorator, find by any spelling, refuse nonsense with a reason."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.registry import Registry, canonical


class Shape:
    pass


@pytest.fixture
def shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[Shape]:
    package = tmp_path / "shape_family"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_private.py").write_text("raise AssertionError('private modules are not imported')")
    (package / "late.py").write_text("import shape_holder\n@shape_holder.held.register('late')\nclass Late: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry: Registry[Shape] = Registry("shape", "shape_family")
    holder = type(sys)("shape_holder")
    holder.held = registry  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shape_holder", holder)
    yield registry
    for name in [n for n in sys.modules if n.startswith("shape_family")]:
        del sys.modules[name]


def add_square(shapes: Registry[Shape]) -> type:
    @shapes.register("Square_Shape", presets={"unit-square": {"side": 1.0}})
    @dataclass(frozen=True)
    class Square(Shape):
        side: float = 2.0

    return Square


def test_spelling() -> None:
    assert canonical(" Twitch_ES ") == "twitch-es"


def test_register_and_create(shapes: Registry[Shape]) -> None:
    square = add_square(shapes)
    assert shapes.get("square-shape") is square and shapes.create("SQUARE_SHAPE", side=3.0) == square(3.0)
    assert shapes.create("unit-square") == square(1.0) == shapes.create("unit-square", side=1.0)
    with pytest.raises(InputError, match=r"'unit-square' already fixes side=1\.0"):
        shapes.create("unit-square", side=2.0)
    with pytest.raises(UnknownNameError, match=r"parameter of shape 'square-shape' 'sid'.*'side'"):
        shapes.create("square-shape", sid=2.0)


def test_modules_are_imported_on_first_need(shapes: Registry[Shape]) -> None:
    add_square(shapes)
    assert "shape_family.late" not in sys.modules
    assert shapes.names() == ["late", "square-shape", "unit-square"]
    assert [entry.name for entry in shapes] == shapes.names() and "Late" in shapes and "round" not in shapes
    with pytest.raises(UnknownNameError, match=r"unknown shape 'squar'\. Did you mean"):
        shapes.get("squar")


def test_a_name_belongs_to_one_class(shapes: Registry[Shape]) -> None:
    add_square(shapes)
    add_square(shapes)  # the same class again (a module imported twice) is harmless
    with pytest.raises(InputError, match="already registered"):

        @shapes.register("square-shape")
        class Other(Shape):
            pass


def test_a_family_that_fails_to_import_fails_every_time(shapes: Registry[Shape], tmp_path: Path) -> None:
    (tmp_path / "shape_family" / "broken.py").write_text("raise RuntimeError('broken module')")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken module"):
            shapes.names()


def test_a_number_after_the_name_fixes_one_parameter(shapes: Registry[Shape]) -> None:
    @shapes.register("polygon", numbered="corners")
    @dataclass(frozen=True)
    class Polygon(Shape):
        corners: int = 3

    assert shapes.create("Polygon_12").corners == 12 and shapes.create("polygon").corners == 3
    assert "polygon-5" in shapes and "polygon-5" not in shapes.names()
    with pytest.raises(InputError, match="already fixes corners=5"):
        shapes.create("polygon-5", corners=4)
    for odd in ("polygon-0", "polygon-x", "polygon-", "polygon-05", "circle-3"):
        assert odd not in shapes
        with pytest.raises(UnknownNameError):
            shapes.create(odd)


def test_threads_wait_for_the_first_load(shapes: Registry[Shape], tmp_path: Path) -> None:
    late = tmp_path / "shape_family" / "late.py"
    late.write_text("import time\ntime.sleep(0.3)\n" + late.read_text())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: shapes.get("late").__name__, range(8)))
    assert found == ["Late"] * 8


def test_methods_in_sub_packages_are_found(shapes: Registry[Shape], tmp_path: Path) -> None:
    deep = tmp_path / "shape_family" / "solid" / "round"
    deep.mkdir(parents=True)
    for folder in (deep, deep.parent):
        (folder / "__init__.py").write_text("")
    (deep / "ball.py").write_text("import shape_holder\n@shape_holder.held.register('ball')\nclass Ball: pass\n")
    assert "ball" in shapes.names()


def test_errors_offer_real_parameters_only(shapes: Registry[Shape]) -> None:
    @shapes.register("disc", presets={"unit-disc": {"radius": 1.0}})
    @dataclass(frozen=True)
    class Disc(Shape):
        radius: float = 2.0
        colour: str = "red"
        area: float = field(default=0.0, init=False)
        reference: ClassVar[str] = "Euclid"

    with pytest.raises(UnknownNameError) as caught:
        shapes.create("disc", refrence="x")
    assert "reference" not in str(caught.value).replace("refrence", "") and "area" not in str(caught.value)
    assert [p.name for p in shapes.parameters("disc")] == ["radius", "colour"]
    assert [p.name for p in shapes.parameters("unit-disc")] == ["colour"]
    assert shapes.takes("disc", "radius") and not shapes.takes("unit-disc", "radius")
    assert not shapes.takes("disc", "reference")


def test_names_stand_in_the_places_that_their_classes_give_them(shapes: Registry[Shape]) -> None:
    @shapes.register("flat", presets={"flatter": {"side": 1}, "flattest": {"side": 0}})
    @dataclass(frozen=True)
    class Flat(Shape):
        side: int = 2
        shown: ClassVar[dict[str, int]] = {"flattest": 5, "flat": 20}

    @shapes.register("round")
    class Round(Flat):  # type: ignore[misc]
        """Inherits the fact, but has no place under its own name."""

    @shapes.register("oval")
    class Oval(Shape):
        shown: ClassVar[dict[str, int]] = {"oval": 10}

    assert shapes.ranked("shown") == ("flattest", "oval", "flat") and shapes.ranked("hidden") == ()
