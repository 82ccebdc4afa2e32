"""Which consumer has which partition: exclusive and shared access, rebalancing, and the map of hash slots."""
