"""Models from outside: a factory of torch modules, known by the path it is imported by.

A path that the caller names (`--model`, `model=`) is imported. A path that a file names never is: a saved release finds
its module among those that were registered, named or supplied in this process, or says that it is missing.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from edgeveil import plugins
from edgeveil.errors import InputError, StorageError
from edgeveil.models.architectures import MODELS, Architecture

if TYPE_CHECKING:
    from edgeveil.models.network import Layer, Model
    from edgeveil.models.spec import ModelSpec

__all__ = [
    "OwnArchitecture",
    "OwnModel",
    "architecture_of",
    "code_of",
    "find_model",
    "model_name",
    "register_model",
    "supplied",
]

WANTED = "a model is factory(in_dim, out_dim) -> torch.nn.Module: a class or a function"


@dataclass(frozen=True, eq=False)
class OwnModel:
    """`factory(in_dim, out_dim)` gives a fresh module; `fit(module, data, train_mask, val_mask, seed)` may train it.

    `name` is the path it is imported by (``pkg.module:factory``, ``file.py:factory``, ``pyg:GIN``) or registered under.
    """

    factory: Callable[[int, int], Any]
    fit: Callable[..., Any] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not callable(self.factory):
            raise InputError(f"{WANTED}, got {self.factory!r}")
        if hasattr(self.factory, "state_dict") and not isinstance(self.factory, type):
            raise InputError(
                f"{WANTED}, got a {type(self.factory).__name__} that has its weights already; every training starts "
                "from fresh ones, so give the class"
            )
        if self.fit is not None and not callable(self.fit):
            raise InputError(f"fit must be a function (module, data, train_mask, val_mask, seed), got {self.fit!r}")
        if not self.name:
            object.__setattr__(self, "name", _path_of(self.factory))


_known: dict[str, OwnModel] = {}
_given: ContextVar[Mapping[str, OwnModel] | None] = ContextVar("_given", default=None)


class OwnArchitecture(Architecture):
    """A module from outside. Nothing is known of its layers, and nothing is looked up before it is built."""

    layered: ClassVar[bool] = False
    own: ClassVar[OwnModel | None] = None

    def __init__(self, name: str = "") -> None:
        self._name = name

    def layers(self, spec: ModelSpec, num_features: int, num_outputs: int) -> list[Layer]:
        """There is one: the module itself."""
        return [*self.build(spec, num_features, num_outputs).layers]

    def build(self, spec: ModelSpec, num_features: int, num_outputs: int) -> Model:
        """The factory's module in the frame that training and releases expect."""
        from edgeveil.models.module import ModuleModel

        return ModuleModel(spec, num_features, num_outputs, self.own or find_model(self._name))


def architecture_of(name: str) -> Architecture:
    """What a model's name stands for: a registered architecture, or a module from outside."""
    return OwnArchitecture(name) if ":" in name else MODELS.create(name)


def register_model(
    factory: Callable[[int, int], Any] | OwnModel, name: str | None = None, *, fit: Callable[..., Any] | None = None
) -> str:
    """Make a module known to this process, so that releases that name it load: by its path and, if given, a name.

    A name of its own (in a plugin, or a package with the entry point ``edgeveil.models``) works wherever one of the
    built-in models does. Returns the name.
    """
    own = factory if isinstance(factory, OwnModel) else OwnModel(factory, fit)
    if name is None or ":" in name:
        own = own if name is None else replace(own, name=name)
        _known[own.name] = own
        return own.name
    own = replace(own, name=name)
    home = getattr(own.factory, "__module__", "__main__")  # whose source the rows of a sweep depend on
    facts = {"own": own, "__doc__": f"{name}.", "__module__": home}
    MODELS.register(name)(type(f"Own{own.factory.__name__}", (OwnArchitecture,), facts))
    return name


def model_name(model: Any) -> str:
    """The name under which a model that the caller gave is known from now on; a path is imported.

    A file goes by its name without its folder, so that a row or release says nothing of the machine. Of two files of
    one name the one named last is meant; ``./net.py:Net`` means the one in this folder.
    """
    if not isinstance(model, str):
        return register_model(model)
    if ":" not in model:
        return model
    place, _, attribute = model.strip().rpartition(":")
    name = f"{Path(place).name}:{attribute}" if place.endswith(".py") else f"{place}:{attribute}"
    if name == model.strip() and name in _known:
        return name
    if place.endswith(".py") and not Path(place).is_file() and (known := _in_plugins(name)) is not None:
        return register_model(known, name)
    found = _imported(place, attribute)
    own = found if isinstance(found, OwnModel) else OwnModel(found)
    return register_model(own, own.name if place == "pyg" else name)


def code_of(name: str) -> str:
    """A digest of the file that defines a model named by path, or the version it came with; "" where neither is known.

    Unlike the digest in a release it covers the whole file: a row that was measured is not shown for other code.
    """
    own = find_model(model_name(name))
    if own.name.startswith("pyg:"):
        return f"pyg {metadata.version('torch_geometric')}"
    try:
        text = Path(inspect.getfile(own.factory)).read_text(encoding="utf-8")
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(ast.unparse(ast.parse(text)).encode()).hexdigest()[:16]


def find_model(name: str) -> OwnModel:
    """The module behind a path, from what this process was given; nothing is imported on the word of a file."""
    given = _given.get() or {}
    own = given.get(name) or _known.get(name)
    if own is None and name.startswith("pyg:"):
        own = _known[model_name(name)]
    if own is None:
        own = _in_plugins(name)
    if own is None:
        raise StorageError(
            f"the model {name!r} is not here: supply it (Release.load(path, modules={{{name!r}: factory}})), or name "
            "the file that defines or registers it (--plugin FILE.py). Code is never loaded from a release"
        )
    return own


@contextmanager
def supplied(modules: Any) -> Iterator[None]:
    """Look modules up here first: a mapping of names to factories, one factory, or several."""
    if modules is None:
        yield
        return
    several = modules if isinstance(modules, (list, tuple)) else [modules]
    pairs = modules.items() if isinstance(modules, Mapping) else [(None, m) for m in several]
    made = [_named(name, factory) for name, factory in pairs]
    mark = _given.set({**(_given.get() or {}), **{own.name: own for own in made}})
    try:
        yield
    finally:
        _given.reset(mark)


def _named(name: str | None, factory: Any) -> OwnModel:
    own = factory if isinstance(factory, OwnModel) else OwnModel(factory)
    return own if name is None else replace(own, name=name)


def _path_of(factory: Any) -> str:
    module, name = getattr(factory, "__module__", "__main__"), getattr(factory, "__qualname__", None)
    file = plugins.file_of(module)
    return f"{module if file is None else file.name}:{name or type(factory).__qualname__}"


def _imported(place: str, attribute: str) -> Any:
    if place == "pyg":
        from edgeveil.models.pyg_models import pyg_model

        return pyg_model(attribute)
    if not attribute or not re.fullmatch(r"[\w.<>]+", attribute):
        raise InputError(f"{WANTED}; name it as pkg.module:factory, file.py:factory or pyg:GIN")
    try:
        return _attribute(_module(place), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"cannot find the model {place}:{attribute}: {error}") from error


def _module(place: str) -> Any:
    if place.endswith(".py"):
        return sys.modules[plugins.load_plugin(place)]
    if place == "__main__":  # a worker process knows the program that started it by another name
        return sys.modules.get("__mp_main__", sys.modules["__main__"])
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.insert(0, here)  # a file in the current folder, as with python -m; workers inherit it
    return importlib.import_module(place)


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _in_plugins(name: str) -> OwnModel | None:
    """A class or function of a plugin file that the caller named, by the file's own name."""
    place, _, attribute = name.rpartition(":")
    plugins.import_listed()
    if name in _known:
        return _known[name]
    for file in map(Path, reversed(plugins.listed())):
        if file.name == place:
            found = _attribute(sys.modules[plugins.load_plugin(file)], attribute)
            return _named(name, found)
    return None
