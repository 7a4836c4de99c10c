"""Three papers: their printed figures, how each is measured here, and whether ours agree."""
