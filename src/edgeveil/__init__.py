"""edgeveil."""
