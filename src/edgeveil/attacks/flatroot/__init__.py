"""flatroot: the stored graph from answers on flat features, exactly, with a certificate."""

from edgeveil.attacks.flatroot.flatroot import FlatRoot

__all__ = ["FlatRoot"]
