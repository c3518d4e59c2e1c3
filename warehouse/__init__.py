"""The lake: DuckLake tables as Parquet; the only place that writes to it."""
