from __future__ import annotations

import pytest
import torch

from edgeveil.errors import InputError
from edgeveil.models.kernels import threads


def test_one_by_default_and_never_more_than_there_are(monkeypatch):
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    assert threads.resolve() == 1
    assert threads.resolve(10_000) == threads.available()
    monkeypatch.setenv(threads.VARIABLE, "2")
    assert threads.resolve() == min(2, threads.available())
    for bad in ("0", "two"):
        monkeypatch.setenv(threads.VARIABLE, bad)
        with pytest.raises(InputError, match="threads"):
            threads.resolve()


def test_the_old_number_comes_back():
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError), threads.limited(1):
        assert torch.get_num_threads() == 1
        raise RuntimeError
    assert torch.get_num_threads() == before


def test_flushing_ends_with_the_block():
    tiny = torch.tensor(1e-38)
    with threads.flushing():
        assert tiny * 0.1 == 0
        with threads.flushing():
            assert tiny * 0.1 == 0
        assert tiny * 0.1 == 0
    assert tiny * 0.1 > 0
