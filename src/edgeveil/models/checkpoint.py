"""Training state on disk: weights, optimiser, generator and history in one .npz, replaced atomically."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgeveil.errors import InputError, StorageError
from edgeveil.models.adam import Adam
from edgeveil.models.base import Model

__all__ = ["Checkpoint", "State", "run_key"]

_VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """Where to keep the state of a run, and after how many epochs to renew it."""

    path: Path
    every: int = 25

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if self.every < 1:
            raise InputError(f"a checkpoint is written every 1 or more epochs, not every {self.every}")


@dataclass
class State:
    """Everything the loop carries from one epoch to the next."""

    epoch: int = 0  # epochs completed
    best_value: float = np.inf
    best_epoch: int = 0
    waited: int = 0
    lowest_val: float = np.inf
    stopped: bool = False
    train_loss: list[float] = field(default_factory=list)
    val_loss: list[float] = field(default_factory=list)
    val_score: list[float] = field(default_factory=list)
    best: dict[str, torch.Tensor] = field(default_factory=dict)

    _PLAIN = (
        "epoch",
        "best_value",
        "best_epoch",
        "waited",
        "lowest_val",
        "stopped",
        "train_loss",
        "val_loss",
        "val_score",
    )

    def save(self, path: Path, model: Model, optimizer: Adam, key: str) -> None:
        """Write all of it; a reader finds the old file or the new one, never a part."""
        header = {"version": _VERSION, "key": key, **{name: getattr(self, name) for name in self._PLAIN}}
        arrays: dict[str, NDArray[Any]] = {"header": np.array(json.dumps(header)), "rng": torch.get_rng_state().numpy()}
        arrays |= {f"now/{k}": v.detach().numpy() for k, v in model.state_dict().items()}
        arrays |= {f"best/{k}": v.numpy() for k, v in self.best.items()}
        arrays |= {f"adam/{k}": v.numpy() for k, v in optimizer.tensors().items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with part.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise StorageError(
                f"cannot write the checkpoint {path}: {error}; free space or choose another place"
            ) from error

    @classmethod
    def load(cls, path: Path, model: Model, optimizer: Adam, key: str) -> State | None:
        """Put a saved run back into model, optimiser and generator; None when there is no file."""
        if not path.exists():
            return None
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            header = json.loads(str(arrays.pop("header")))
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise StorageError(f"the checkpoint {path} is not readable ({error}); delete it to start over") from error
        if header.pop("version") != _VERSION or header.pop("key") != key:
            raise StorageError(f"the checkpoint {path} belongs to another run; delete it or choose another path")
        tensors = {name: torch.tensor(value) for name, value in arrays.items()}
        torch.set_rng_state(tensors.pop("rng"))
        model.load_state_dict({k.removeprefix("now/"): v for k, v in tensors.items() if k.startswith("now/")})
        optimizer.restore({k.removeprefix("adam/"): v for k, v in tensors.items() if k.startswith("adam/")})
        state = cls(**header)
        state.best = {k.removeprefix("best/"): v for k, v in tensors.items() if k.startswith("best/")}
        return state


def run_key(parts: dict[str, Any], arrays: list[Any]) -> str:
    """Identity of a run: its settings and its data, so that a checkpoint never continues another one."""
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
