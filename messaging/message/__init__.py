"""Values that all other packages carry: a message, a batch of messages, a publication.

Imports nothing of ours. Every room may import it.
"""
