"""Bridges of brokers under test: their settings, their configuration, and what they have carried."""
