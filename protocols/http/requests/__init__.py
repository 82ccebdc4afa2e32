"""Handlers of requests: publish, also in gateway mode, consume, settle, and browse."""
