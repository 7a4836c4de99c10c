"""Guesses and truth become numbers."""

from edgeveil.metrics.intervals import Interval, bootstrap, over_seeds
from edgeveil.metrics.ranking import at_belief, at_count, ranking, top_share

__all__ = ["Interval", "at_belief", "at_count", "bootstrap", "over_seeds", "ranking", "top_share"]
