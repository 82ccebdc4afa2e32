"""The whole node on virtual time, under a seed: real actors, cores, wire bytes and record formats, in one process.

What is not real: the clock, the loop, sockets, the store's disk. Start reading at `run.py`.
"""
