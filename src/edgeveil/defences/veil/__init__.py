"""Defences that start from what can be had without any edge: the feature graph, and private statistics upon it."""

from edgeveil.defences.veil.choice import Veil
from edgeveil.defences.veil.counts import VeilCounts
from edgeveil.defences.veil.denoised_rr import VeilRR
from edgeveil.defences.veil.feature_graph import FeatureGraph

__all__ = ["FeatureGraph", "Veil", "VeilCounts", "VeilRR"]
