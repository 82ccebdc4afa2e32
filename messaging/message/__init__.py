"""A message, a batch of them, a publication: the values that everything else carries.

Imports nothing of ours. Every room may import it."""
