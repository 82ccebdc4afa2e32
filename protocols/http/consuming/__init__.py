"""Consuming over HTTP: the flows of workers, which outlive requests, their unsettled messages, and their formats."""
