"""Count inference: which pairs explain the noisy neighbour counts that a release stores."""

from edgeveil.attacks.counts.count_inference import CountInference

__all__ = ["CountInference"]
