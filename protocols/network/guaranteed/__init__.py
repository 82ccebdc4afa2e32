"""Guaranteed messages of links: the way out, the way in, and what the store keeps of a neighbor."""
