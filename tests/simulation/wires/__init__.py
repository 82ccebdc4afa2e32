"""Connections in memory, and taps that read what passes on them and tell the judge."""
