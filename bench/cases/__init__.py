"""The cases: the table that lists them, and the runs that put a load on a broker.

The package imports `bench.brokers`, `bench.load` and `bench.wire`.
"""
