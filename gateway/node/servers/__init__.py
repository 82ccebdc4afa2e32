"""The servers of the node, one for each protocol: its listeners and what its connections need."""
