"""Topics and filters: syntax, relations, the subscription index, retained messages.

Knows messages; knows no queue and no route. Every room may import it.
"""
