"""Retained messages over links: their frames, and the exchange over one link."""
