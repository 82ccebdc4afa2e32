"""What a client may do: ACL profiles, limits, the rights of one connection, and the roster of clients."""
