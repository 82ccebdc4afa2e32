"""Bulk readers and writers: the retained log, range reads, durable cursors, staged transactions."""
