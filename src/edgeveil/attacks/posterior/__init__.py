"""edge-posterior: one calibrated probability per pair, through the noise of a published graph."""

from edgeveil.attacks.posterior.edge_posterior import EdgePosterior

__all__ = ["EdgePosterior"]
