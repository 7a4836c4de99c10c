"""Secret and currency become a release: one file per defence."""
