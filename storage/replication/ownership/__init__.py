"""Which replica of a broker may be its owner: a lease on a key that NATS servers keep."""
