"""The options of mosquitto.conf that are of the whole broker."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from sluicegate.gateway.importing.imported import Imported
from sluicegate.gateway.importing.mosquitto.conf import Line, MosquittoConf
from sluicegate.gateway.importing.report import ImportFailed

PACKET_BYTES_MIN, PACKET_BYTES_MAX = 1024, 268_435_455
TOPIC_AND_PROPERTIES_BYTES: Final = 64 * 1024  # beside the payload that message_size_limit is about
WINDOW_MAX: Final = 65_535
SECONDS: Final = MappingProxyType({"h": 3600, "d": 86_400, "w": 604_800, "m": 2_592_000, "y": 31_536_000})
EXPIRY_S_MAX: Final = 4_294_967_295

SYSTEM: Final = "of the operating system: set it in the unit or container that runs `sluicegate serve`"
QUEUES: Final = (
    "a session's messages are in a durable queue of up to 5000 MiB; beyond it publishers are refused, while mosquitto "
    "drops messages and confirms them"
)
STORED: Final = (
    "every confirmed message of QoS 1 and 2, session and retained message is on disk before its publisher is confirmed"
)
LOGS: Final = "the log goes to standard error; `log.format: json` makes each line a JSON object"

DIFFERENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "autosave_interval": STORED,
        "autosave_on_changes": STORED,
        "connection_messages": "connects and disconnects are events: see events.publish_client, and log.audit_file",
        "log_facility": LOGS,
        "log_timestamp": LOGS,
        "log_timestamp_format": LOGS,
        "max_inflight_bytes": "the window of a client counts messages, not bytes",
        "max_queued_bytes": QUEUES,
        "max_queued_messages": QUEUES,
        "memory_limit": "memory is bounded by spool.memory_bytes_max and backpressure.*; messages beyond are on disk",
        "persistence": STORED,
        "persistence_file": STORED,
        "queue_qos0_messages": "a message of QoS 0 never waits for a client that is away; subscribe with QoS 1",
        "set_tcp_nodelay": "sockets never wait to fill a packet",
        "store_clean_interval": "settled messages are removed at once",
        "websockets_headers_size": "the head of an upgrade request has a limit that cannot be set",
    }
)
NOTHING_LIKE_IT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "allow_duplicate_messages": "a client gets a message once, however many of its subscriptions match",
        "auth_plugin": "plug-ins of mosquitto cannot be loaded: use accounts, ACL profiles, or tokens (oauth)",
        "auto_id_prefix": "identifiers that the broker assigns have no prefix of one's own",
        "check_retain_source": "a retained message stays when its publisher loses the right to publish",
        "clientid_prefixes": "client identifiers have no rule; ACL profiles restrict users",
        "global_plugin": "plug-ins of mosquitto cannot be loaded: use accounts, ACL profiles, or tokens (oauth)",
        "persistence_location": (
            "mosquitto's database is not read: data.path is a folder of its own. Move retained messages with a bridge"
        ),
        "pid_file": SYSTEM,
        "plugin": "plug-ins of mosquitto cannot be loaded: use accounts, ACL profiles, or tokens (oauth)",
        "plugin_load": "plug-ins of mosquitto cannot be loaded: use accounts, ACL profiles, or tokens (oauth)",
        "plugin_use": "plug-ins of mosquitto cannot be loaded: use accounts, ACL profiles, or tokens (oauth)",
        "psk_file": "keys that both sides know (TLS-PSK) are not supported: use certificates or passwords",
        "retain_expiry_interval": "a retained message expires only if its publisher said so (MQTT 5.0)",
        "retry_interval": "messages are sent again only when a client comes back, as MQTT demands",
        "upgrade_outgoing_qos": "a message is never delivered with a higher QoS than it was published with",
        "user": SYSTEM,
        "websockets_log_level": "WebSocket has no log of its own",
    }
)


def take_general(conf: MosquittoConf, imported: Imported) -> None:
    """Take the options of the broker. Raises ImportFailed."""
    report = imported.report
    for earlier, later in conf.repeated:
        report.differs(earlier, f"{later.where} has it again: that one counts")
    for line in conf.lines:
        if line.name == "include_dir":
            report.taken(line, "its files are read")
        elif line.name == "log_type":
            _log_type(line, imported)
        elif line.name == "log_dest":
            report.differs(line, LOGS)
    for line in conf.general.values():
        if line.name in TAKEN:
            TAKEN[line.name](line, imported)
        elif line.name in DIFFERENT:
            report.differs(line, DIFFERENT[line.name])
        elif line.name in NOTHING_LIKE_IT:
            report.not_taken(line, NOTHING_LIKE_IT[line.name])
    for line in conf.plugin_options:
        report.not_taken(line, "plug-ins of mosquitto cannot be loaded")


def _number(path: str, lowest: int, highest: int) -> Callable[[Line, Imported], None]:
    """Return what takes a number as it is."""

    def take(line: Line, imported: Imported) -> None:
        value = line.number()
        kept = min(max(value, lowest), highest)
        imported.put(path, kept)
        imported.report.taken(line, f"{path}: {kept}")
        if kept != value:
            imported.report.differs(line, f"allowed here: {lowest} to {highest}")

    return take


def _flag(path: str) -> Callable[[Line, Imported], None]:
    def take(line: Line, imported: Imported) -> None:
        imported.put(path, line.flag())
        imported.report.taken(line, f"{path}: {str(line.flag()).lower()}")

    return take


def _max_packet_size(line: Line, imported: Imported) -> None:
    if value := line.number():
        _limit_packets(line, imported, value)
    else:
        imported.report.differs(line, "there is always a limit: mqtt.maximum_packet_size is 16 MiB by default")


def _message_size_limit(line: Line, imported: Imported) -> None:
    value = line.number()
    if not value:
        imported.report.differs(line, "there is always a limit: mqtt.maximum_packet_size is 16 MiB by default")
        return
    _limit_packets(line, imported, value + TOPIC_AND_PROPERTIES_BYTES)
    imported.report.differs(
        line, "the limit here is of the packet and not of the payload: 64 KiB are added for the rest"
    )


def _limit_packets(line: Line, imported: Imported, bytes_max: int) -> None:
    mqtt = imported.section("mqtt")
    kept = min(max(bytes_max, PACKET_BYTES_MIN), PACKET_BYTES_MAX, mqtt.get("maximum_packet_size", PACKET_BYTES_MAX))
    mqtt["maximum_packet_size"] = kept
    imported.report.taken(line, f"mqtt.maximum_packet_size: {kept}")


def _max_inflight_messages(line: Line, imported: Imported) -> None:
    value = line.number(0, WINDOW_MAX) or WINDOW_MAX
    for path in ("mqtt.receive_maximum", "mqtt.unacknowledged_window_v3"):
        imported.put(path, value)
    imported.report.taken(line, f"mqtt.receive_maximum and mqtt.unacknowledged_window_v3: {value}")
    imported.report.differs(
        line, "an MQTT 5.0 client's own Receive Maximum is the window of what it gets, whatever stands here"
    )


def _expiration(line: Line, imported: Imported) -> None:
    count, unit = line.value[:-1].strip(), line.value[-1:]
    if not count.isascii() or not count.isdigit() or len(count) > 9 or unit not in SECONDS:
        allowed = "a number with h, d, w, m or y, such as 14d"
        raise ImportFailed(line.where, f"{line.name} {line.value!r} is not allowed; allowed: {allowed}")
    value = min(int(count) * SECONDS[unit], EXPIRY_S_MAX)
    imported.put("mqtt.session_expiry_s_max", value)
    imported.report.taken(line, f"mqtt.session_expiry_s_max: {value}")


def _per_listener(line: Line, imported: Imported) -> None:
    if line.flag():
        imported.report.differs(
            line, "accounts and rights are of a message VPN, not of a listener: see what is said of each listener"
        )
    else:
        imported.report.taken(line, "accounts and rights are the same for all listeners of a message VPN")


def _log_type(line: Line, imported: Imported) -> None:
    if line.value in ("debug", "all"):
        imported.put("log.level", "debug")
        imported.report.taken(line, "log.level: debug")
    else:
        imported.report.differs(line, "log.level is the lowest level that is logged: info, unless it is set")


TAKEN: Final[Mapping[str, Callable[[Line, Imported], None]]] = MappingProxyType(
    {
        "allow_zero_length_clientid": _flag("mqtt.allow_zero_length_client_id"),
        "max_inflight_messages": _max_inflight_messages,
        "max_keepalive": _number("mqtt.keep_alive_s_max", 0, 65_535),
        "max_packet_size": _max_packet_size,
        "message_size_limit": _message_size_limit,
        "per_listener_settings": _per_listener,
        "persistent_client_expiration": _expiration,
        "retain_available": _flag("mqtt.retain_available"),
        "sys_interval": _number("mqtt.sys_interval_s", 0, 86_400),
    }
)
