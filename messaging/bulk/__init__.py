"""Readers and writers in bulk: the retained log, range reads, durable cursors, staged transactions."""
