"""Numbers become a page: figures, verdict and one self-contained HTML file."""
