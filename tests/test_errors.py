"""Errors form one tree, and their messages carry the value, the reason and the remedy."""

from __future__ import annotations

import inspect
from fractions import Fraction

import pytest

from edgeveil import errors


def test_every_error_is_in_the_tree_and_documented() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if c.__module__ == errors.__name__]
    assert sorted(c.__name__ for c in classes) == sorted(errors.__all__)
    assert all(issubclass(c, errors.EdgeveilError) and c.__doc__ for c in classes)
    assert all(c.__name__ in (errors.__doc__ or "") for c in classes)


def test_input_errors_are_value_errors_and_extras_import_errors() -> None:
    assert issubclass(errors.GraphError, ValueError) and issubclass(errors.UsageError, errors.InputError)
    assert issubclass(errors.MissingExtra, ImportError)
    assert "pip install 'edgeveil[pyg]'" in str(errors.MissingExtra("PyG", "pyg"))


def test_unknown_names_suggest_the_nearest() -> None:
    error = errors.UnknownNameError("attack", "linkteler", ["random", "linkteller", "lsa2-post"])
    assert "unknown attack 'linkteler'. Did you mean 'linkteller'?" in str(error)
    assert str(error).endswith("Known: linkteller, lsa2-post, random.") and error.choices[0] == "linkteller"
    assert "Did you mean" not in str(errors.UnknownNameError("attack", "zzz", ["random"]))


def test_budget_errors_say_what_is_missing() -> None:
    error = errors.BudgetExceeded(Fraction(1), Fraction(3, 4), Fraction(1, 2), "the release")
    assert "the release asks for epsilon 0.5" in str(error) and "short by 0.25" in str(error)
    assert error.short == Fraction(1, 4)
    with pytest.raises(errors.EdgeveilError):
        raise error
