"""Releases on disk: a folder of plain JSON and unpickled arrays, written whole or not at all.

manifest.json       format version, defence, parameters, guarantee, sha256 of the other files
                    (but for private_graph.npz, whose checksum would let anyone test a guess at the edges)
weights.npz         the model's weights
features.npz        features in model space
names.npz           ids of the nodes, where they have any; class names and how raw tables become features are in the
                    manifest
structure.npz       what the model aggregates over: a perturbed graph or stored noisy statistics
private_graph.npz   instead of structure.npz when a release without defence needs the true graph (mode 0600), and
private_graph.sha256  its checksum (mode 0600)
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import StorageError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.release.inputs import Inputs
from edgeveil.release.predictors import predictor_from_state

if TYPE_CHECKING:
    from edgeveil.release.release import Release

__all__ = ["FORMAT", "load_release", "save_release"]

log = logging.getLogger("edgeveil")
FORMAT = 1
PLAIN_FIELDS = ("defence", "model", "layers", "variant", "setting", "dataset", "is_twin", "multilabel", "scaling")
PRIVATE, PRIVATE_SUM = "private_graph.npz", "private_graph.sha256"
Arrays = dict[str, NDArray[Any]]


def save_release(release: Release, path: Path) -> Path:
    """Write to a temporary folder beside `path`, then move it into place."""
    if path.exists() and not (path / "manifest.json").is_file() and any(path.iterdir() if path.is_dir() else [path]):
        raise StorageError(f"{path} exists and is not a release; choose an empty or new folder")
    settings, weights, structure = release.predictor.state()
    private = release.contains_private_graph
    structure_file = PRIVATE if private else "structure.npz"
    if private:
        log.warning("%s: this release has no defence, so it keeps the private graph in private_graph.npz", path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        raise StorageError(f"cannot write beside {path}: {error.strerror or error}") from error
    try:
        files = {"weights.npz": weights, "features.npz": _feature_arrays(release.matrix), structure_file: structure}
        if release.node_ids is not None:
            files["names.npz"] = {"node_ids": np.asarray(release.node_ids).astype(str)}
        sums = {name: _write(scratch / name, arrays, secret=name == PRIVATE) for name, arrays in files.items()}
        if private:
            with _new(scratch / PRIVATE_SUM, secret=True) as file:
                file.write(sums.pop(PRIVATE).encode())
        manifest = {
            "format": FORMAT,
            **{name: getattr(release, name) for name in PLAIN_FIELDS},
            "params": dict(release.params),
            "notes": list(release.notes),
            "class_names": None if release.class_names is None else list(release.class_names),
            "inputs": None if release.inputs is None else release.inputs.to_json(),
            "contains_private_graph": private,
            "guarantee": release.guarantee.to_json(),
            "predictor": {"kind": release.predictor.kind, "settings": settings},
            "sha256": sums,
        }
        (scratch / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        if path.exists():
            shutil.rmtree(path)
        scratch.replace(path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}; nothing was kept") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return path


def load_release(path: Path) -> Release:
    """Read and check a saved release."""
    from edgeveil.release.release import Release

    manifest = _read_manifest(path)
    sums = dict(manifest["sha256"])
    if manifest["contains_private_graph"] and PRIVATE not in sums:
        sums[PRIVATE] = _read_bytes(path / PRIVATE_SUM).decode("ascii", "replace").strip()
    arrays = {name: _read(path / name, expected) for name, expected in sums.items()}
    structure = arrays.get(PRIVATE, arrays.get("structure.npz", {}))
    kind = manifest["predictor"]
    return Release(
        **{name: manifest[name] for name in PLAIN_FIELDS if name in manifest},
        params=manifest["params"],
        notes=tuple(manifest["notes"]),
        contains_private_graph=manifest["contains_private_graph"],
        guarantee=Guarantee.from_json(manifest["guarantee"]),
        predictor=predictor_from_state(kind["kind"], kind["settings"], arrays["weights.npz"], structure),
        matrix=_features_from(arrays["features.npz"]),
        node_ids=arrays.get("names.npz", {}).get("node_ids"),
        class_names=None if manifest.get("class_names") is None else tuple(manifest["class_names"]),
        inputs=None if manifest.get("inputs") is None else Inputs.from_json(manifest["inputs"]),
    )


def _feature_arrays(matrix: FeatureMatrix) -> Arrays:
    """S, shift and replaced rows as they are, so that a loaded release computes to the same bit."""
    values = matrix.values
    arrays = (
        {"data": values.data, "indices": values.indices, "indptr": values.indptr, "shape": np.array(values.shape)}
        if sp.issparse(values)
        else {"values": values}
    )
    extra = {"shift": matrix.shift, "nodes": matrix.nodes, "replaced": matrix.replaced}
    return arrays | {key: array for key, array in extra.items() if array is not None}


def _features_from(arrays: Arrays) -> FeatureMatrix:
    values: Any = arrays.get("values")
    if values is None:
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        values = sp.csr_matrix(parts, shape=tuple(int(s) for s in arrays["shape"]))
    matrix = FeatureMatrix(values, arrays.get("shift"))
    return matrix.with_rows(arrays["nodes"], arrays["replaced"]) if "nodes" in arrays else matrix


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / "manifest.json"
    if not file.is_file():
        raise StorageError(
            f"{path} is not a release: it has no manifest.json (edgeveil release GRAPH --out DIR makes one)"
        )
    try:
        manifest: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StorageError(f"{file} is damaged: {error}") from error
    if manifest.get("format") != FORMAT:
        raise StorageError(f"{path} has release format {manifest.get('format')!r}; this version reads format {FORMAT}")
    return manifest


@contextmanager
def _new(path: Path, secret: bool) -> Iterator[Any]:
    """A new file, on disk when the block ends."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o644)
    with os.fdopen(handle, "w+b") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _write(path: Path, arrays: Arrays, secret: bool) -> str:
    """Pack the arrays straight into the file, so that large ones are never held twice; its sha256."""
    with _new(path, secret) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}; the release is incomplete") from error


def _read(path: Path, expected: str) -> Arrays:
    data = _read_bytes(path)
    if hashlib.sha256(data).hexdigest() != expected:
        raise StorageError(f"{path} does not match its checksum in the release; it was changed or cut short")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise StorageError(f"{path} is not a readable array archive: {error}") from error
