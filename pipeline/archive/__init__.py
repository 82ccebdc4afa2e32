"""Archives: Parquet files and Delta tables, written and read again."""
