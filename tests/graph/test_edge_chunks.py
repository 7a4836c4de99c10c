"""Edge files: two numbers on every line and nothing else, or an error that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeveil.errors import GraphError, InputError, StorageError
from edgeveil.graph.edge_chunks import edge_chunks, simple_chunks
from tries import tries


def read(path: Path, content: str | bytes, chunk: int = 1000) -> list[tuple[int, int]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [(int(a), int(b)) for u, v in edge_chunks(path, chunk) for a, b in zip(u, v, strict=True)]


@pytest.mark.parametrize(
    "text",
    [
        "0\n1\n2\n3\n",
        "0 1 5\n\n1 2 5\n\n",
        "0\n1 2 3\n",
        "0 1 2\n3\n",
        "0 1\n2\n3\n4 5\n",
        "0 1\n2 3 4 5",
        "0,1,\n",
        ",0,1\n",
        "0,,1\n",
        "0,\n1,2\n",
        "0 1\r2 3\r",
        "7",
    ],
)
def test_lines_without_exactly_two_numbers_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(GraphError, match=r"two (node|whole) numbers"):
        read(tmp_path / "edges.txt", text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-1 2\n0 1\n", "-1 2"),
        ("0 1 a\n1 2\n", "0 1 a"),
        ("0 1\n-1 2\n", "-1 2"),
        ("1.5 2\n", "1.5 2"),
        ('"0","1"\n2,3\n', '"0","1"'),
        ("0 1\n# late\n1 2\n", "# late"),
        ("0;1\n", "0;1"),
    ],
)
def test_only_a_line_that_starts_with_no_number_is_a_header(tmp_path: Path, text: str, shown: str) -> None:
    with pytest.raises(GraphError, match="not two whole numbers") as error:
        read(tmp_path / "edges.csv", text)
    assert shown in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "0 1\n1 2\n",
        "\n\n0 1\n\n  \n1 2",
        "source target weight\n0\t1\r\n1\t2\r\n",
        "# one\n#two\nu,v\n0 , 1\n1,2 \n",
        b"\xef\xbb\xbf0,1\n1,2\n",
        b"\xef\xbb\xbfu,v\n00,1\n1,2\n\n",
    ],
)
@pytest.mark.parametrize("chunk", [1, 1000])
def test_headers_comments_empty_lines_and_line_ends_are_understood(
    tmp_path: Path, text: str | bytes, chunk: int
) -> None:
    assert read(tmp_path / "edges.txt", text, chunk) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "u v\n"])
def test_files_without_edges_have_none(tmp_path: Path, text: str) -> None:
    assert read(tmp_path / "edges.txt", text) == []


@settings(max_examples=tries(200), deadline=None)
@given(st.text(alphabet="01 ,\n-x", max_size=14))
def test_a_file_is_read_like_a_careful_line_by_line_reader(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """The first line is fixed, so that no drawn line can be a header."""
    expected: list[tuple[int, int]] | None = [(0, 1)]
    for line in text.split("\n"):
        fields = line.split(",") if "," in line else line.split()
        if not line.strip():
            continue
        if expected is None or len(fields) != 2 or not all(f.strip().isdigit() for f in fields):
            expected = None
        else:
            expected.append((int(fields[0]), int(fields[1])))
    path = tmp_path_factory.mktemp("edges") / "edges.txt"
    if expected is None:
        with pytest.raises(GraphError):
            read(path, "0 1\n" + text)
    else:
        assert read(path, "0 1\n" + text) == expected


def test_a_number_too_long_for_a_node_is_refused(tmp_path: Path) -> None:
    assert read(tmp_path / "e.txt", f"0 {10**18 - 1}\n") == [(0, 10**18 - 1)]
    with pytest.raises(GraphError, match="more than 18 digits"):
        read(tmp_path / "e.txt", f"0 {10**20}\n")


@pytest.mark.parametrize("junk", [b"", b"junk", b"\x93NUMPY\x01\x00", b"0 1\n1 2\n"])
def test_junk_called_npy_is_refused_with_the_remedy(tmp_path: Path, junk: bytes) -> None:
    with pytest.raises(StorageError, match=r"numpy\.save"):
        read(tmp_path / "edges.npy", junk)


def test_an_archive_or_a_cut_off_npy_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "edges.npz", edges=np.zeros((2, 3), int))
    with pytest.raises(StorageError, match="archive"):
        read(tmp_path / "edges.npy", (tmp_path / "edges.npz").read_bytes())
    np.save(tmp_path / "whole.npy", np.zeros((2, 300), int))
    with pytest.raises(StorageError, match="readable"):
        read(tmp_path / "edges.npy", (tmp_path / "whole.npy").read_bytes()[:-100])


@pytest.mark.parametrize("chunk", [0, -3, 2.5, True])
def test_chunks_hold_at_least_one_edge(tmp_path: Path, chunk: int) -> None:
    (tmp_path / "edges.txt").write_text("0 1\n")
    with pytest.raises(InputError, match="chunk"):
        edge_chunks(tmp_path / "edges.txt", chunk)
    with pytest.raises(InputError, match="chunk"):
        list(simple_chunks(lambda: iter([]), 2, chunk))
