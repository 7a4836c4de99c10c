"""What the outside sees: releases that only predict, and targets that count the questions."""
