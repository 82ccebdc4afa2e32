"""Durable cursors: their directory, and requests that wait for messages."""
