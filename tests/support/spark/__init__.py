"""Spark in processes of its own, and what its jobs read and leave behind."""
