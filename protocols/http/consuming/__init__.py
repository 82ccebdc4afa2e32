"""Consuming over HTTP: the flows of workers, which outlive requests, what they hold and its forms on the wire."""
