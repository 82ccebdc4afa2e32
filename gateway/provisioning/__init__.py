"""Objects that the configuration declares or operators create: users, profiles, queues, delivery points.

Nothing here knows the node or its message VPNs: they pass in what an object needs of them.
"""
