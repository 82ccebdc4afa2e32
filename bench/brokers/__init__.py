"""The brokers under test: how each is started, placed on cores, measured and stopped.

The package imports `bench.wire` and `bench.load`.
"""
