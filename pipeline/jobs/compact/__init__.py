"""The job `compact`: `job` has its file and what it does, `days` how a day of Parquet files is exchanged."""
