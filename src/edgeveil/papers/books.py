"""How each printed figure of the three papers is measured here: one module per paper."""

from __future__ import annotations

from edgeveil.papers import graphprivatizer_tables as graphprivatizer
from edgeveil.papers import linkteller_tables as linkteller
from edgeveil.papers import lpgnet_tables as lpgnet
from edgeveil.papers.recipes import Paper

__all__ = ["BOOKS"]

BOOKS: dict[str, Paper] = {book.name: book for book in (linkteller.BOOK, lpgnet.BOOK, graphprivatizer.BOOK)}
