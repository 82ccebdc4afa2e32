"""Micro-benchmarks of a whole node in one process, without sockets or on virtual time, and their clients.

The package imports `bench.wire` and `bench.brokers`.
"""
