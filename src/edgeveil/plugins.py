"""Files outside the package whose attacks, defences, models and predictors are registered when they are imported.

The names of loaded files stand in the environment variable ``EDGEVEIL_PLUGINS``, which worker processes inherit: there
the first look-up of a name imports the same files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import threading
from pathlib import Path

from edgeveil.errors import InputError

__all__ = ["VARIABLE", "file_of", "import_listed", "listed", "load_plugin"]

VARIABLE = "EDGEVEIL_PLUGINS"
_PREFIX = "edgeveil_plugin_"
_lock = threading.RLock()


def load_plugin(path: str | Path) -> str:
    """Import one file, once, and list it for worker processes; the name of its module."""
    file = Path(path).resolve()
    if not file.is_file() or file.suffix != ".py":
        raise InputError(f"no plugin at {path}: a plugin is a Python file that registers methods")
    with _lock:
        name = _import(file)
        if str(file) not in listed():
            os.environ[VARIABLE] = os.pathsep.join([*listed(), str(file)])
    return name


def listed() -> list[str]:
    """Files loaded so far, here or in the process that started this one."""
    return [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]


def import_listed() -> None:
    """Import every listed file that this process has not imported yet."""
    with _lock:
        for part in listed():
            _import(Path(part))


def _import(file: Path) -> str:
    """The module's name is its file's, so that pickled methods of a plugin are found again by a worker."""
    name = f"{_PREFIX}{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return name
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except InputError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise InputError(f"the plugin {file} cannot be imported: {type(error).__name__}: {error}") from error
    return name


def file_of(module: str) -> Path | None:
    """The plugin file behind a module's name, or None for a module that was imported in the usual way."""
    found = sys.modules.get(module) if module.startswith(_PREFIX) else None
    return None if found is None or found.__file__ is None else Path(found.__file__)
