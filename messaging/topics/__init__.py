"""Topics and filters: their syntax, how they relate, the index of subscriptions, retained messages.

Knows messages; knows no queue and no route. Every room may import it."""
