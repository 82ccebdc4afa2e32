"""Spark in processes of its own, and the files that its jobs read and write."""
