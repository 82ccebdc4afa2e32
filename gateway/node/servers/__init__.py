"""The servers of a node, one for each protocol: its listeners, and the services of its connections."""
