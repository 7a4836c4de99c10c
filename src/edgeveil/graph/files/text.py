"""From the bytes of a delimited text file to clean UTF-8: compression, encoding, comments, Excel, delimiter."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from edgeveil.errors import GraphError, StorageError

__all__ = ["NAMES_OF", "Text", "kind_of", "read_text"]

SPACES = " "
NAMES_OF = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", SPACES: "blanks"}
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_KINDS = (".csv", ".tsv", ".txt", ".edges")
_WORKBOOKS = (".xls", ".xlsx", ".xlsm", ".ods")
_COMMENT = re.compile(rb"(?m)^[#%][^\n]*\n?")
_BLANK = re.compile(rb"(?m)^[ \r]+\n")
_QUOTED = re.compile(r'"[^"]*"')


@dataclass(frozen=True)
class Text:
    """A table as text without comments, and how it had to be read."""

    data: bytes
    delimiter: str  # as it separates cells in `data`
    said: str  # delimiter, compression, encoding and so on, in words
    comments: int = 0

    @property
    def first(self) -> list[str]:
        """The cells of the first row."""
        lines = self.data[: 1 << 22].decode("utf-8", "replace").splitlines()
        return next(csv.reader(lines, delimiter=self.delimiter), [])


def kind_of(path: Path) -> str:
    """The ending that says what a file holds, without that of its compression."""
    return Path(path.stem).suffix.lower() if path.suffix in (".gz", ".zst") else path.suffix.lower()


def read_text(path: Path, delimiter: str | None = None) -> Text:
    """Read a file whole; what cannot be told from its bytes is refused with the line and the remedy."""
    kind = kind_of(path)
    if kind not in _KINDS:
        hint = "save the sheet as 'CSV UTF-8'" if kind in _WORKBOOKS else "use .csv, .tsv, .txt or .parquet"
        raise GraphError(f"{path.name} is of an unknown kind {kind!r}; {hint} (also .gz or .zst)")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    raw, packed = _unpacked(raw, path)
    data, encoding = _utf8(raw, path)
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    data, told = _excel_line(data)
    comments = len(_COMMENT.findall(data)) if data[:1] in b"#%" or b"\n#" in data or b"\n%" in data else 0
    data = _COMMENT.sub(b"", data) if comments else data
    data = _BLANK.sub(b"", data).lstrip(b"\n") if b"\n " in data or data[:1] in b" \n" else data
    mark = _checked(delimiter) or told or _sniffed(data, kind)
    said = [f"{NAMES_OF.get(mark, repr(mark))}-separated" + " (Excel's sep= line)" * (told is not None)]
    said += [part for part in (packed, encoding) if part] + [f"{comments} comment lines"] * (comments > 0)
    if mark == SPACES:
        lines = re.sub(rb"(?m)^[ \t]+|[ \t]+$", b"", data)
        data, mark = re.sub(rb"[ \t]+", b"\t", lines), "\t"
    return Text(data, mark, ", ".join(said), comments)


def _unpacked(raw: bytes, path: Path) -> tuple[bytes, str]:
    packed = next((name for magic, name in _PACKED.items() if raw.startswith(magic)), "")
    if raw.startswith(b"PK\x03\x04"):
        raise StorageError(f"{path.name} is a workbook or a zip archive, not text; save the sheet as 'CSV UTF-8'")
    if not packed:
        if path.suffix in (".gz", ".zst"):
            raise StorageError(
                f"{path.name} is not {path.suffix[1:]} data in spite of its name; rename or pack it again"
            )
        return raw, ""
    try:
        with pa.CompressedInputStream(pa.BufferReader(raw), packed) as stream:
            return stream.read(), packed
    except (OSError, EOFError, pa.ArrowInvalid) as error:
        raise StorageError(f"{path.name} is damaged {packed} data ({error}); write it again") from error


def _utf8(raw: bytes, path: Path) -> tuple[bytes, str]:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return raw.decode("utf-16").encode(), "UTF-16"
        except UnicodeDecodeError as error:
            raise StorageError(f"{path.name} starts as UTF-16 but is not; save it as UTF-8") from error
    data = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise StorageError(
            f"{path.name}: line {line} is not UTF-8 (byte 0x{data[error.start]:02x}); save the file as 'CSV UTF-8', or "
            f"convert it: iconv -f WINDOWS-1252 -t UTF-8 {path.name}"
        ) from error
    if b"\x00" in data:
        line = data.count(b"\n", 0, data.index(b"\x00")) + 1
        raise StorageError(f"{path.name}: line {line} holds a zero byte, so this is no text; save it as 'CSV UTF-8'")
    return data, "byte-order mark" if len(data) < len(raw) else ""


def _excel_line(data: bytes) -> tuple[bytes, str | None]:
    """Excel's own first line ``sep=;``."""
    head, _, rest = data.partition(b"\n")
    found = re.fullmatch(rb'"?sep=(.)"?', head.strip(b" "), re.IGNORECASE)
    return (rest, found.group(1).decode("latin-1")) if found else (data, None)


def _checked(delimiter: str | None) -> str | None:
    if delimiter is None:
        return None
    mark = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": SPACES}.get(delimiter, delimiter)
    if len(mark) != 1 or mark in '"\r\n':
        raise GraphError(f"a delimiter is one character, or tab, comma, semicolon, space; got {delimiter!r}")
    return mark


def _sniffed(data: bytes, kind: str) -> str:
    """The mark that every one of the first lines holds equally often; else the one of the first line."""
    sample = data[: 1 << 16].decode("utf-8", "ignore").split("\n")
    sample = sample[:-1] if len(data) > 1 << 16 else sample
    lines = [_QUOTED.sub("", line) for line in sample[:50] if line.strip()]
    marks = ("\t", ";", ",", "|")
    steady = (
        [mark for mark in marks if len({line.count(mark) for line in lines}) == 1 and mark in lines[0]] if lines else []
    )
    present = [mark for mark in marks if lines and mark in lines[0]]
    plain = {".csv": ",", ".tsv": "\t"}.get(kind, SPACES)
    return next(iter(steady), None) or (plain if plain in present else next(iter(present), plain))
