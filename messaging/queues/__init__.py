"""What a queue is configured to be, and what bounds it: attributes, definition, quotas, credit, back-pressure.

The messages of a queue are in `messaging.partitions`. Protocols and actors may import all of it."""
