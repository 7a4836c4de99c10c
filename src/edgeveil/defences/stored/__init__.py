"""Defences on graphs whose edges stay in files: they ask for counts, and the counts get their noise once."""
