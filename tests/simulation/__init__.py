"""A whole node on virtual time, under a seed: real actors, cores, wire bytes and record formats, in one process.

Simulated are the clock, the event loop, the sockets and the store's disk. Start reading at `run.py`.
"""
