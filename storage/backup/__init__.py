"""Backups: writing and restoring one, and reading a spool without a broker."""
