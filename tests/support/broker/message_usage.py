"""The usage that a message counts for, for all tests: docs/concepts/queues.md, "What a message counts for"."""

RECORD_BYTES = 128  # in a durable queue


def usage_of(topic: str, *payloads: bytes) -> int:
    """Return what messages without headers count for in a durable queue; the topic is ASCII."""
    return sum([len(payload) + len(topic) + RECORD_BYTES for payload in payloads])
