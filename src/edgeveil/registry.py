"""Named families of methods: register by decorator, look up by name, extend by entry point.

A family knows the package whose modules define its members and imports them on the first look-up,
so that writing one file there (or declaring an entry point elsewhere, or naming a plugin file) is all it takes to add a
method.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.parameters import Parameter, names_of, parameters_of
from edgeveil.plugins import import_listed

__all__ = ["Entry", "Places", "Registry", "canonical"]

Places = Mapping[str, int]
"""Names of a method and their places in a list of methods that nobody named."""

T = TypeVar("T")


def canonical(name: str) -> str:
    """The one spelling of a name: lower case, dashes for underscores; a path (``pkg.module:name``) is as written."""
    return name.strip() if ":" in name else name.strip().lower().replace("_", "-")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered name: the class behind it and the parameters the name itself fixes."""

    name: str
    cls: type[T]
    preset: Mapping[str, Any] = field(default_factory=dict)


class Registry(Generic[T]):
    """The members of one family (attacks, defences, models, predictors).

    `groups` are the entry points that other packages declare members under; `adopt` is given the name and the object of
    each, for families whose members need not register themselves. `reserved` are names that no parameter may have,
    because the call that takes them has arguments of these names.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        *groups: str,
        reserved: Iterable[str] = (),
        adopt: Callable[[str, Any], None] | None = None,
    ) -> None:
        self.kind, self._adopt = kind, adopt
        self._package = package
        self._groups = groups
        self._reserved = frozenset(reserved)
        self._entries: dict[str, Entry[T]] = {}
        self._numbered: dict[str, str] = {}
        self._loading = self._loaded = False
        self._lock = threading.RLock()

    def register(
        self, name: str, presets: Mapping[str, Mapping[str, Any]] | None = None, *, numbered: str | None = None
    ) -> Callable[[type[T]], type[T]]:
        """Class decorator. `presets` are further names that fix some parameters (``gp-t`` of ``graphprivatizer``).

        `numbered` is a parameter that any whole number after the name fixes: ``lpgnet-7`` has seven layers.
        """

        def wrap(cls: type[T]) -> type[T]:
            self._add(Entry(canonical(name), cls))
            if numbered is not None:
                self._numbered[canonical(name)] = numbered
            for alias, fixed in (presets or {}).items():
                self._add(Entry(canonical(alias), cls, dict(fixed)))
            return cls

        return wrap

    def _add(self, entry: Entry[T]) -> None:
        taken = self._reserved.intersection(names_of(entry.cls))
        if taken:
            raise InputError(
                f"{self.kind} {entry.name!r} has a parameter {min(taken)!r}, which is an argument of its own already; "
                "rename the parameter"
            )
        old = self._entries.get(entry.name)
        if old is not None and old.cls.__qualname__ != entry.cls.__qualname__:
            raise InputError(
                f"{self.kind} {entry.name!r} is already registered by {old.cls.__module__}; choose another name"
            )
        self._entries[entry.name] = entry

    def load(self) -> None:
        """Import every module of the family's package and every entry point, once; other threads wait for it."""
        if self._loaded:
            return
        with self._lock:
            if self._loading or self._loaded:  # the modules may look names up while they are imported
                return
            self._loading = True
            try:
                self._import_members()
                self._loaded = True
            finally:
                self._loading = False

    def _import_members(self) -> None:
        package = importlib.import_module(self._package)
        for name in _modules(getattr(package, "__path__", ()), self._package):
            importlib.import_module(name)
        for group in self._groups:
            for point in entry_points(group=group):
                found = point.load()
                if self._adopt is not None and canonical(point.name) not in self._entries:
                    self._adopt(point.name, found)
        import_listed()

    def entry(self, name: str) -> Entry[T]:
        """The entry behind a name; raises `UnknownNameError` with the nearest names."""
        key = canonical(name)
        if key not in self._entries:
            self.load()
        found = self._entries.get(key) or self._counted(key)
        if found is None:
            raise UnknownNameError(self.kind, name, self._entries)
        return found

    def _counted(self, key: str) -> Entry[T] | None:
        base, _, number = key.rpartition("-")
        if base not in self._numbered or not (number.isascii() and number.isdigit() and number[0] != "0"):
            return None
        return Entry(key, self._entries[base].cls, {self._numbered[base]: int(number)})

    def numbered(self, name: str) -> str | None:
        """The parameter that a number after this name fixes, if there is one."""
        return self._numbered.get(canonical(name))

    def get(self, name: str) -> type[T]:
        """The class behind a name."""
        return self.entry(name).cls

    def create(self, name: str, **params: Any) -> T:
        """Build the method behind a name; parameters that the name fixes may not be given again."""
        entry = self.entry(name)
        for key in entry.preset.keys() & params.keys():
            if params[key] != entry.preset[key]:
                raise InputError(
                    f"{self.kind} {name!r} already fixes {key}={entry.preset[key]!r}; drop the parameter {key!r}"
                )
        known = names_of(entry.cls)
        for key in params:
            if known and key not in known:
                raise UnknownNameError(f"parameter of {self.kind} {entry.name!r}", key, self._open(entry))
        return entry.cls(**{**params, **entry.preset})

    def parameters(self, name: str) -> tuple[Parameter, ...]:
        """What may be set under a name: the parameters of its class that the name does not fix."""
        entry = self.entry(name)
        return tuple(p for p in parameters_of(entry.cls) if p.name not in entry.preset)

    def takes(self, name: str, parameter: str) -> bool:
        """Whether a method under this name is given such a parameter."""
        return parameter in self._open(self.entry(name))

    def _open(self, entry: Entry[T]) -> list[str]:
        return [name for name in names_of(entry.cls) if name not in entry.preset]

    def ranked(self, fact: str) -> tuple[str, ...]:
        """The names to which their classes give a place under this fact (name -> place), in the order of the places."""
        places = [(place, e.name) for e in self if (place := getattr(e.cls, fact, {}).get(e.name)) is not None]
        return tuple(name for _, name in sorted(places))

    def names(self) -> list[str]:
        """All registered names, sorted."""
        self.load()
        return sorted(self._entries)

    def __iter__(self) -> Iterator[Entry[T]]:
        self.load()
        return iter([self._entries[name] for name in sorted(self._entries)])

    def __contains__(self, name: str) -> bool:
        self.load()
        key = canonical(name)
        return key in self._entries or self._counted(key) is not None


def _modules(path: Iterable[str], prefix: str) -> Iterator[str]:
    """Every public module below a package, those of its sub-packages too."""
    for module in pkgutil.iter_modules(path):
        if module.name.startswith("_"):
            continue
        name = f"{prefix}.{module.name}"
        yield name
        if module.ispkg:
            yield from _modules(importlib.import_module(name).__path__, name)
