"""Two sites of a broker, each with NATS servers of its own: which of them is active, and how the other has its log.

What the replicas of one site do among themselves is in the packages beside this one. Nothing here knows clients.
"""
