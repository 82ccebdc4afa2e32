"""Consuming from a queue of a neighbor: the consumer's end, and the end where the queue is."""
