"""The job `compact`: `job` has its file and its steps, `days` exchanges a day of Parquet files."""
