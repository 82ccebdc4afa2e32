"""The load generator: the plan of a load, the clients of each protocol, and the checks on received messages.

It runs in worker processes, and imports `bench.wire` only.
"""
