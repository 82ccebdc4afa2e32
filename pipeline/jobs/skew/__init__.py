"""`skew`: which keys make a partition hot, and what another number of partitions would do about it.

`job` queries Spark, `shares` hashes keys in its tasks and has the arithmetic, and `page` makes the report.
"""
