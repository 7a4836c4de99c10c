"""The currency: what a guarantee says, what it costs, and the noise that pays for it."""
