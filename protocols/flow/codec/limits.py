"""Limits of the flow protocol, with unit and reason. `FlowLimits` has those that operators may change."""

from typing import Final, final

HEAD_BYTES: Final = 12  # of every frame: length, type, flags, bytes of fields, flow id
PREFACE_BYTES: Final = 8
FIELDS_MAX: Final = 64  # of one frame; a mechanism or a feature is one each
NAME_BYTES_MAX: Final = 255  # of clients, publishers and queues, in UTF-8
TEXT_BYTES_MAX: Final = 1024  # of a reason given to people
UNAUTHENTICATED_FRAME_BYTES_MAX: Final = 4096  # the most we buffer for an unknown client. Bearer tokens fit
AUTHENTICATIONS_MAX: Final = 3  # failed attempts, then the connection ends
SILENT_INTERVALS_MAX: Final = 3  # keep-alive intervals without a byte, then the peer is gone
KEEP_ALIVE_MS_MIN: Final = 1_000  # more often than once a second is no sign of life but load
WINDOW_MAX: Final = 65_535  # messages of a publisher without answer; each may need a row until it is stored
RANGES_MAX: Final = 4_096  # of one SETTLE, and of one PUB_ACK
ROWS_MAX: Final = 20_000  # of one STAGE: 20 ms of the gateway. Batches of Spark have 10,000 by default
POSITIONS_MAX: Final = 4_096  # partitions that one frame speaks of; queues have 1,024 at most
ATTEMPTS_MAX: Final = 100_000  # that one COMMIT_STAGED names, as the broker allows
CHUNK_BYTES_DEFAULT: Final = 2 * 1024 * 1024  # payload of one ROWS: 10,000 rows of 200 bytes
CHUNK_BYTES_MAX: Final = 8 * 1024 * 1024  # as a range read gives at most
REQUESTS_MAX: Final = 64  # about cursors and transactions, without answer; each is a task
STAGES_MAX: Final = 4  # of those, STAGE: each holds its rows until they are on the disk
SELECTOR_BYTES_MAX: Final = 16 * 1024  # of the text; selectors have a lower limit of their own, and tell it
TOPIC_FILTER_BYTES_MAX: Final = 4 * 1024  # the syntaxes have lower limits of their own, and tell them
ATTRIBUTES_BYTES_MAX: Final = 1024 * 1024  # of a queue, in JSON: mostly its subscriptions, of which it may have 10,000
DEFLATED_BODY_BYTES_MIN: Final = 512  # each stream costs 8 us to set up; smaller bodies save too little for that
# Sent to one client in a turn: 30 ms of a processor, or 100 for bytes that do not compress.
DEFLATED_BYTES_MAX: Final = 4 * 1024 * 1024
# Bytes of a body for each of its stream. One read of 256 KiB makes us hold 25 MiB, less than a message may have; zlib
# itself goes to 1,030.
INFLATED_RATIO_MAX: Final = 100
LINK_VPNS_MAX: Final = 1_000  # message VPNs of one link
LINK_NEIGHBORS_MAX: Final = 1_000  # neighbors of a broker; each is a connection
LINK_GROUPS_MAX: Final = 32  # shared groups that one LINK_MESSAGES names
FRAME_BYTES_MIN: Final = UNAUTHENTICATED_FRAME_BYTES_MAX  # the smallest limit a peer may set
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024  # the largest; a message of a queue has 30 MB at most

assert FRAME_BYTES_MIN <= UNAUTHENTICATED_FRAME_BYTES_MAX <= FRAME_BYTES_MAX


@final
class FlowLimits:
    """The limits of one connection. Checked values; all connections of a listener share one object."""

    def __init__(
        self,
        *,
        frame_bytes_max: int = 32 * 1024 * 1024,
        flows_max: int = 1_024,
        window: int = 1_000,
        unsettled_max: int = 10_000,
        keep_alive_ms: int = 30_000,
        connect_timeout_ms: int = 10_000,
        compresses: bool = True,
    ) -> None:
        assert FRAME_BYTES_MIN <= frame_bytes_max <= FRAME_BYTES_MAX
        assert 0 < flows_max <= 65_535
        assert 0 < window <= WINDOW_MAX
        assert 0 < unsettled_max <= 1_000_000
        assert keep_alive_ms >= KEEP_ALIVE_MS_MIN
        assert connect_timeout_ms > 0
        self.frame_bytes_max = frame_bytes_max  # whole frames, heads included; a frame holds one message
        self.flows_max = flows_max  # publishers, consumers, browsers and ranges of one connection together
        self.window = window  # messages a publisher may send ahead of our answers
        self.unsettled_max = unsettled_max  # messages a flow may hold, whatever its credit
        self.keep_alive_ms = keep_alive_ms  # the longest interval a client may choose
        self.connect_timeout_ms = connect_timeout_ms  # from accept until the client is authenticated
        self.compresses = compresses  # bodies of frames, for clients that ask for it
