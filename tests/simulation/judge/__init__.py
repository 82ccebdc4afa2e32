"""The judge of a run: what the node promised, what clients saw, and whether they agree."""
