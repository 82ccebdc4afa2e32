"""What a replica has of its broker's log: the servers that keep it, its own store, trims, and the time of the log."""
