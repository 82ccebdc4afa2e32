"""The actor of one queue: consumers, assignment, rescaling, browsing, re-drive."""
