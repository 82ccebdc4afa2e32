"""The rights of clients: ACL profiles, limits, the rights of one connection, and the roster of clients."""
