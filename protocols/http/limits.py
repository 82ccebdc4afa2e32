"""Limits of one HTTP client: those that operators set, and those that are fixed."""

from dataclasses import dataclass
from typing import Final

ANSWER_MESSAGES_MAX: Final = 1000  # in one answer: a client wants to begin with the first
NUMBERS_MAX: Final = 10_000  # deliveries that one request may name; more than a flow holds by default
WINDOW: Final = 100  # messages that a stream is ahead of its client, unless that says otherwise
HEARTBEAT_MS: Final = 15_000  # proxies give up on a response that says nothing for a minute, some for less


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What one client may ask of us."""

    body_bytes_max: int  # of a request, as it is sent and after gzip is undone
    message_bytes_max: int  # of each message in it
    batch_messages_max: int
    head_timeout_ms: int  # from the first byte of a request to the end of its headers, and from accept to the first
    body_timeout_ms: int  # of silence within a body, and for what of it comes more slowly than at the least rate
    body_rate_min: int  # bytes a second, on the average of a whole body
    keep_alive_ms: int  # from an answer to the next request
    flows_max: int  # of all clients
    flows_per_client_max: int
    unsettled_max: int  # that a flow may hold
    lock_ms: int  # that a worker has to settle a message, unless it says otherwise
    lock_ms_max: int
    wait_ms_max: int  # that a request may wait for messages
