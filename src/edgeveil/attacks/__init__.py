"""From answers to guesses: one file per attack, none of which can see the graph."""
