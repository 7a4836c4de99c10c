"""Guesses and truth become numbers."""
