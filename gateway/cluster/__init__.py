"""A broker with replicas on several machines: one of them owns it and serves clients, the others follow its log.

What replicas share is kept by servers of NATS JetStream (`storage.replication`). Each replica is one process, and has
a node only while it is the owner.
"""
