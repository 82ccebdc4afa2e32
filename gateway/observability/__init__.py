"""Logs, events, metrics and traces, and how they leave the process."""
