"""The protocols as the load generator speaks them, and the sockets that carry them.

Frames are written beforehand. The package imports no other package of `bench` and nothing of the broker.
"""
