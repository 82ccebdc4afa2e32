"""The configuration of a queue and its limits: attributes, definition, quotas, credit, back-pressure.

`messaging.partitions` holds the messages of a queue. Protocols and actors may import all of this package.
"""
