"""The assignment of partitions to consumers: exclusive and shared access, rebalancing, and the map of hash slots."""
