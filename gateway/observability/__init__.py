"""Logs, events, metrics, traces: how they leave the process."""
