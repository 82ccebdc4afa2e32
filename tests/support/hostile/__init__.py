"""Clients that break rules or use up what a broker has."""
