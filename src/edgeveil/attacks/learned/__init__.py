"""An attack that learns how to weigh all others, from known pairs or from a public graph."""

from edgeveil.attacks.learned.learned_links import LearnedLinks

__all__ = ["LearnedLinks"]
