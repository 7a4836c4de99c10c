"""The hot path: sparse products, attention, features as a factor, their derivatives, threads."""
