"""Rows of the catalog: definitions of queues, staged transactions, and how a start recovers its state."""
