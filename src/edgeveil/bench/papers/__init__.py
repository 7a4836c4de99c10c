"""How each printed figure of the three papers is measured here: one module per paper."""

from __future__ import annotations

from edgeveil.bench.papers import graphprivatizer, linkteller, lpgnet
from edgeveil.bench.papers.base import Paper

__all__ = ["BOOKS"]

BOOKS: dict[str, Paper] = {book.name: book for book in (linkteller.BOOK, lpgnet.BOOK, graphprivatizer.BOOK)}
