"""Traces of clients: taps on connections, and what makes words of the bytes that pass."""
