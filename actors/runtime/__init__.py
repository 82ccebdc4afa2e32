"""The actor runtime: cells, inboxes, the dispatcher, requests and replies, tasks, supervision, clocks.

Knows no queue and no protocol. Every room above may import it."""
