"""The actor runtime on pykka, and the actors of the broker: router, queues, partitions, spool.

An actor here is a thin shell: it owns a pure core from `messaging`, forwards whole batches to it, and carries out what
the core decides. Protocols build on these actors; no actor here knows a wire format or a socket.
"""
