"""The secret: an immutable attributed graph, where it comes from and how its pairs are counted."""
