"""Limits of the AMQP engine: unit, reason, and the values of other brokers."""

from typing import Final, final

MIN_MAX_FRAME_SIZE: Final = 512  # no peer may ask for less, and nothing larger goes before its open is seen (2.7.1)
SASL_FRAME_BYTES_MAX: Final = 65_536  # the standard says 512; bearer tokens are larger
DELIVERY_TAG_BYTES_MAX: Final = 32  # 2.8.7
LINK_NAME_BYTES_MAX: Final = 512
MAP_ENTRIES_MAX: Final = 64  # of the properties of open, begin and attach, and of a filter
IDLE_TIMEOUT_MS_MIN: Final = 1_000  # a peer that wants more than two frames a second is refused
OUTGOING_WINDOW: Final = 0x7FFF_FFFF  # we never run out of transfer ids
FRAME_HEAD_BYTES: Final = 8


@final
class AmqpLimits:
    """What one connection may ask of us. Checked values; one object is shared by all connections of a listener."""

    def __init__(
        self,
        *,
        frame_bytes_max: int = 65_536,
        channel_max: int = 255,
        handle_max: int = 1_023,
        incoming_window: int = 2_048,
        message_bytes_max: int = 30_000_000,
        partial_bytes_max: int = 64 * 1024 * 1024,
        idle_timeout_ms: int = 60_000,
        connect_timeout_ms: int = 10_000,
        link_credit: int = 1_000,
        transactions_max: int = 64,
        transaction_operations_max: int = 10_000,
        transaction_bytes_max: int = 32 << 20,
        transactions_bytes_max: int = 256 << 20,
        transaction_timeout_ms: int = 60_000,
    ) -> None:
        assert MIN_MAX_FRAME_SIZE <= frame_bytes_max <= 1 << 24
        assert 0 <= channel_max <= 65_535
        assert 0 <= handle_max <= 0xFFFF_FFFF
        assert 0 < incoming_window <= 0x7FFF_FFFF
        assert 0 < message_bytes_max <= partial_bytes_max
        assert idle_timeout_ms == 0 or idle_timeout_ms >= 2 * IDLE_TIMEOUT_MS_MIN
        assert connect_timeout_ms > 0
        assert link_credit > 0
        assert transactions_max > 0
        assert transaction_operations_max > 0
        assert 0 < transaction_bytes_max <= transactions_bytes_max
        assert transaction_timeout_ms > 0
        # Largest frame we take. Artemis: 128 KiB, Qpid JMS 1 MiB, RabbitMQ: no limit of its own.
        self.frame_bytes_max = frame_bytes_max
        self.channel_max = channel_max  # highest channel, so one less than the sessions of a connection
        self.handle_max = handle_max  # highest handle, so one less than the links of a session
        self.incoming_window = incoming_window  # transfer frames a session may send ahead of us
        self.message_bytes_max = message_bytes_max  # announced with every link that sends to us
        self.partial_bytes_max = partial_bytes_max  # of deliveries whose last frame has not come, over all links
        # Silence after which the connection is closed; half of it is announced, as 2.4.5 advises. 0: never.
        self.idle_timeout_ms = idle_timeout_ms
        self.connect_timeout_ms = connect_timeout_ms  # for each step: protocol header, SASL, open
        self.link_credit = link_credit  # deliveries a link may send ahead of us. Artemis: 1000, RabbitMQ: 170
        # Transactions: how many a connection may have open; what one of them may publish and settle, and hold in memory
        # until it is discharged; what those of all connections may hold; and how long nothing may be done in one.
        # Artemis: no limit but the timeout, 300 s.
        self.transactions_max = transactions_max
        self.transaction_operations_max = transaction_operations_max
        self.transaction_bytes_max = transaction_bytes_max
        self.transactions_bytes_max = transactions_bytes_max
        self.transaction_timeout_ms = transaction_timeout_ms
