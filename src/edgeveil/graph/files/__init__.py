"""Own files: edge lists, node lists, features and labels as their owners have them."""
