"""Count inference: which pairs explain the noisy neighbour counts that a release stores."""

from edgeveil.attacks.counts.attack import CountInference

__all__ = ["CountInference"]
