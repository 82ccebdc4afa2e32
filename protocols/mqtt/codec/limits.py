"""Limits of the MQTT engine: unit, reason, and what other brokers use."""

from typing import Final, final

REMAINING_LENGTH_MAX: Final = 268_435_455  # the standard's, four bytes of seven bits
PACKET_BYTES_CEILING: Final = REMAINING_LENGTH_MAX + 5  # nothing larger can be announced
PACKET_ID_MAX: Final = 65_535
STRING_BYTES_MAX: Final = 65_535
CLIENT_ID_BYTES_MIN: Final = 23  # that every server takes [3.1.3-5]

TOPIC_CACHE_ENTRIES_MAX: Final = 1_024  # checked topics of one connection; a full cache is cleared
TOPIC_CACHE_BYTES_MAX: Final = 256  # a longer topic is decoded each time, so a connection's cache stays below 1 MiB
PROPERTIES_CACHE_ENTRIES_MAX: Final = 256  # decoded property sections of one connection, for keyed traffic
PROPERTIES_CACHE_BYTES_MAX: Final = 256  # a longer section is decoded each time
ASKED_NOW_MAX: Final = 8  # requests of a client that other actors carry out in one turn, some 20 us each
FILTERS_PER_TURN_MAX: Final = 64  # of a client's SUBSCRIBEs and UNSUBSCRIBEs, whatever becomes of them; as for actors
TOPIC_ALIASES_OUT_MAX: Final = 64  # aliases we set towards one client: its most frequent topics get them

assert TOPIC_CACHE_ENTRIES_MAX * TOPIC_CACHE_BYTES_MAX <= 1 << 20
assert PACKET_BYTES_CEILING > REMAINING_LENGTH_MAX


@final
class MqttLimits:
    """The limits of one connection. Checked values; all connections of a listener share one object."""

    def __init__(
        self,
        *,
        packet_bytes_max: int = 16 * 1024 * 1024,
        receive_maximum: int = 1_000,
        topic_alias_maximum: int = 16,
        maximum_qos: int = 2,
        retain_available: bool = True,
        connect_timeout_ms: int = 10_000,
        connect_bytes_max: int = 512 * 1024,
        filters_per_packet_max: int = 10_000,
        client_id_bytes_max: int = 1024,
        level3_client_id_chars_max: int = 0,
        topic_levels_max: int = 0,
        refuse_control_characters: bool = False,
    ) -> None:
        assert 0 < connect_bytes_max <= packet_bytes_max <= PACKET_BYTES_CEILING
        assert 0 < receive_maximum <= PACKET_ID_MAX
        assert 0 <= topic_alias_maximum <= 65_535
        assert 0 <= maximum_qos <= 2
        assert connect_timeout_ms > 0
        assert filters_per_packet_max > 0
        assert client_id_bytes_max >= CLIENT_ID_BYTES_MIN
        assert topic_levels_max >= 0
        # Whole packet with its fixed header; announced to 5.0 clients. mosquitto: 256 MiB, EMQX: 1 MiB.
        self.packet_bytes_max = packet_bytes_max
        # QoS>0 messages of a 5.0 client that we have not answered. mosquitto: 20, EMQX: 32. An answer waits for the
        # disk here, so a small window would cap a publisher at window / commit time.
        self.receive_maximum = receive_maximum
        self.topic_alias_maximum = topic_alias_maximum  # aliases a 5.0 client may set; 0: none. HiveMQ: 5
        self.maximum_qos = maximum_qos  # of what a client publishes, and what its subscriptions are granted
        self.retain_available = retain_available  # a client may publish with RETAIN
        self.connect_timeout_ms = connect_timeout_ms  # silence before CONNECT, or in the middle of authentication
        # What an unauthenticated peer may make us hold. Client id, will topic, will payload, user name and password
        # may take 64 KiB each.
        self.connect_bytes_max = connect_bytes_max
        self.filters_per_packet_max = filters_per_packet_max  # in one SUBSCRIBE or UNSUBSCRIBE
        # Servers have to take 23 [3.1.3-5], and may take more. It is in the key of each row of its session, of which
        # QoS 2 may need 65,535. Solace: 160, HiveMQ: 65,535.
        self.client_id_bytes_max = client_id_bytes_max
        # 3.1 allows 23; real clients send more, so 0 (no limit) is the default.
        self.level3_client_id_chars_max = level3_client_id_chars_max
        # Of topics and filters; 0: no limit but their length, as in the standard. mosquitto: 200.
        self.topic_levels_max = topic_levels_max
        # U+0001..U+001F, U+007F..U+009F and non-characters in topics, filters, client ids and user names SHOULD NOT
        # appear and MAY be refused. Public test suites expect that; some devices break. Property values may have them.
        self.refuse_control_characters = refuse_control_characters
