"""Clients that others wrote, one module for each."""
