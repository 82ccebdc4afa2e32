"""`skew`: which keys make a partition hot, and what another number of partitions would do about it.

`job` is what operators run and asks Spark, `hashing` runs in its tasks, `shares` is the arithmetic, and `page` shows it
to people.
"""
