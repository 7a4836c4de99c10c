"""Graphs whose edges stay in parquet files and are asked through a data engine."""
