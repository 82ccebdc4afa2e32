"""The listeners of mosquitto.conf. Here there is one for each protocol and transport; a second one stays out."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sluicegate.gateway.importing.imported import Imported
from sluicegate.gateway.importing.mosquitto.conf import Block, Line, MosquittoConf
from sluicegate.gateway.importing.report import ImportFailed, Setting

EVERYWHERE: Final = "0.0.0.0"
EVERYWHERE_IPV6: Final = "::"
LOOPBACK: Final = "127.0.0.1"
CONNECTIONS_MAX: Final = 1_000_000
EVERY_ORIGIN: Final = ["*"]
PROTOCOLS: Final = ("mqtt", "websockets", "http_api")
KINDS: Final = ("mqtt", "mqtt_tls", "mqtt_websocket", "mqtt_websocket_tls")
OTHER_PROTOCOLS: Final = ("amqp", "flow", "http")  # open on loopback by default, which mosquitto has nothing like
_HOST: Final = re.compile(r"[A-Za-z0-9_.:%-]+")
CLOSED: Final = "listeners.{name} is written with enabled: false"

DIFFERENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ciphers": "TLS 1.2 and newer with OpenSSL's own choice of ciphers",
        "ciphers_tls1.3": "TLS 1.3 with OpenSSL's own choice of ciphers",
        "dhparamfile": "key exchange is by elliptic curves",
        "tls_keyform": "the key is a PEM file",
        "tls_version": "TLS 1.2 and newer are accepted",
        "use_username_as_clientid": (
            "a client chooses its identifier, and needs an account; %c in an ACL file is its user name"
        ),
    }
)
NOTHING_LIKE_IT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "accept_protocol_versions": "MQTT 3.1, 3.1.1 and 5.0 are accepted",
        "capath": "authorities are one PEM file: join those of the folder, and name it as client_ca",
        "http_dir": "no files are served: use a web server",
        "max_topic_alias_broker": "the broker sets no topic aliases",
        "tls_engine": "keys are read from files",
        "tls_engine_kpass_sha1": "keys are read from files",
    }
)
# Without these a listener would admit clients, or show them topics, that it must not.
CLOSING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "enable_proxy_protocol": "the PROXY protocol is not supported",
        "mount_point": "topics of a listener cannot be put below a prefix; a message VPN of its own separates clients",
        "psk_hint": "keys that both sides know (TLS-PSK) are not supported",
        "use_subject_as_username": (
            "the user name is the common name or a subject alternative name (certificate_user), not the whole subject"
        ),
    }
)


def take_listeners(conf: MosquittoConf, imported: Imported) -> list[Block]:
    """Take the listeners, and return those that are here as well. Raises ImportFailed."""
    listeners = imported.section("listeners")
    if not conf.has_listeners:
        imported.report.taken(Setting("", "no listener"), f"listeners.mqtt on {LOOPBACK}:1883, as mosquitto 2 does")
        listeners["mqtt"] = {"enabled": True, "host": LOOPBACK, "port": 1883}
    blocks = conf.listeners() if conf.has_listeners else []
    taken = [block for block in blocks if _take(block, imported)]
    for line in (line for block in (conf.default, *conf.extra) for line in block.options.values()):
        if block_is_unused(line, blocks):
            imported.report.not_taken(line, "the listener that it is of is not opened")
    for name in (*KINDS, *OTHER_PROTOCOLS):
        listeners.setdefault(name, {"enabled": False})
    if any(_address(block)[1] == EVERYWHERE and not _given_host(block) for block in taken):
        imported.report.differs(
            Setting("", "a listener without an address"),
            "listens on all IPv4 addresses; for IPv6 write host: '::', for which there is one listener less",
        )
    return taken if conf.has_listeners else [conf.default]


def block_is_unused(line: Line, blocks: list[Block]) -> bool:
    """Return whether a line is of a listener that is not opened."""
    return not any(line in block.options.values() for block in blocks)


def listener_setting(block: Block) -> Setting:
    """Return what stands for a listener in the report."""
    if block.start is not None:
        return block.start
    return block.options.get("port") or block.options.get("bind_address") or Setting("", "the default listener")


def kind_of(block: Block) -> str:
    """Return the name of the listener here."""
    name = "mqtt_websocket" if block.value("protocol") == "websockets" else "mqtt"
    return f"{name}_tls" if "certfile" in block.options or "keyfile" in block.options else name


def _take(block: Block, imported: Imported) -> bool:
    """Return whether a listener is here as well."""
    setting, report = listener_setting(block), imported.report
    listeners = imported.section("listeners")
    name = kind_of(block)
    port, host, problem = _address(block)
    protocol = block.options.get("protocol")
    if protocol is not None and protocol.value not in PROTOCOLS:
        raise ImportFailed(protocol.where, f"protocol {protocol.value!r} is not allowed; allowed: mqtt, websockets")
    if block.value("protocol") == "http_api":
        problem = "mosquitto's HTTP API is another one than that of the admin port"
    if problem or name in listeners:
        problem = problem or f"there is one listener for each protocol and transport, and listeners.{name} is another"
        report.not_taken(setting, problem)
        for line in block.options.values():
            report.not_taken(line, "of a listener that is not taken")
        return False
    values: dict[str, object] = {"enabled": True, "host": host, "port": port}
    listeners[name] = values
    report.taken(setting, f"listeners.{name}: {host}:{port}")
    for line in block.options.values():
        _option(name, line, block, values, imported)
    if name.startswith("mqtt_websocket"):
        values["path"] = "/mqtt"
        report.differs(setting, "WebSocket clients have to ask for the path /mqtt: mosquitto takes any")
        if imported.section("mqtt").setdefault("allowed_origins", [*EVERY_ORIGIN]) == EVERY_ORIGIN:
            text = "web pages of every origin may use it, as in mosquitto: name yours in mqtt.allowed_origins"
            report.differs(setting, text)
    return True


def _address(block: Block) -> tuple[int, str, str]:
    """Return port and host, or why they cannot be had."""
    words = block.start.value.split() if block.start is not None else [block.value("port", "1883")]
    where = listener_setting(block).where
    if not words or not re.fullmatch("[0-9]{1,5}", words[0]) or int(words[0]) > 65_535:
        raise ImportFailed(where, f"{' '.join(words)!r} is no port of a listener; allowed: 0 to 65535")
    host = _given_host(block)
    if host and not _HOST.fullmatch(host):
        allowed = "a host name or an address; a comment has a line of its own"
        raise ImportFailed(where, f"{host!r} is no address of a listener; allowed: {allowed}")
    if int(words[0]) == 0:
        return 0, host, "Unix sockets are not supported"
    if not host:
        host = EVERYWHERE_IPV6 if block.value("socket_domain") == "ipv6" else EVERYWHERE
    return int(words[0]), "127.0.0.1" if host == "localhost" else host, ""


def _given_host(block: Block) -> str:
    words = block.start.value.split() if block.start is not None else []
    return words[1] if len(words) > 1 else block.value("bind_address")


def _option(name: str, line: Line, block: Block, values: dict[str, object], imported: Imported) -> None:
    """Take one option of a listener that is taken."""
    report = imported.report
    if line.name in CLOSING and line.value.lower() not in ("false", "0", ""):
        values["enabled"] = False
        report.not_taken(line, f"{CLOSING[line.name]}; {CLOSED.format(name=name)}")
    elif line.name in DIFFERENT:
        report.differs(line, DIFFERENT[line.name])
    elif line.name in NOTHING_LIKE_IT:
        report.not_taken(line, NOTHING_LIKE_IT[line.name])
    elif line.name in ("certfile", "keyfile", "crlfile"):
        key = {"certfile": "certificate", "keyfile": "key", "crlfile": "client_crl"}[line.name]
        values[key] = line.value
        report.taken(line, f"listeners.{name}.{key}")
    elif line.name == "max_connections":
        _max_connections(name, line, values, imported)
    elif line.name in ("max_qos", "max_topic_alias"):
        _lowest_of_all(line, imported)
    elif line.name in ("cafile", "require_certificate", "use_identity_as_username"):
        _certificates(name, line, block, values, imported)
    elif line.name == "bind_interface":
        _bind_interface(name, line, block, values, imported)
    elif line.name == "protocol":
        report.taken(line, f"listeners.{name}")
    elif line.name == "websockets_origin":
        _origins(line, imported)
    elif line.name in ("port", "bind_address", "socket_domain"):
        report.taken(line, f"listeners.{name}")
    elif line.name in CLOSING:
        report.taken(line, "it is off here, too")


def _bind_interface(name: str, line: Line, block: Block, values: dict[str, object], imported: Imported) -> None:
    text = "give the address of the interface as `host`"
    if not _given_host(block):
        values["enabled"] = False
        text += f"; {CLOSED.format(name=name)}"
    imported.report.not_taken(line, text)


def _origins(line: Line, imported: Imported) -> None:
    """Take the origins of a listener for all of them: those that every one with origins has."""
    mqtt = imported.section("mqtt")
    others = mqtt.get("allowed_origins", EVERY_ORIGIN)
    mqtt["allowed_origins"] = [each for each in line.value.split() if others == EVERY_ORIGIN or each in others]
    imported.report.taken(line, "mqtt.allowed_origins")
    imported.report.differs(line, "origins are the same for all listeners: those that each listener has that names any")


def _max_connections(name: str, line: Line, values: dict[str, object], imported: Imported) -> None:
    count = line.number(-1)
    if count > 0:
        values["max_connections"] = min(count, CONNECTIONS_MAX)
        imported.report.taken(line, f"listeners.{name}.max_connections: {values['max_connections']}")
    else:
        imported.report.differs(line, f"there is always a limit: listeners.{name}.max_connections is 10000")


def _lowest_of_all(line: Line, imported: Imported) -> None:
    """Take a limit of a listener for all of them: the lowest."""
    key, highest = {"max_qos": ("maximum_qos", 2), "max_topic_alias": ("topic_alias_maximum", 65_535)}[line.name]
    mqtt = imported.section("mqtt")
    mqtt[key] = min(line.number(0, highest), mqtt.get(key, highest))
    imported.report.taken(line, f"mqtt.{key}: {mqtt[key]}")
    imported.report.differs(line, "it is the same for all listeners: the lowest that one has")


def _certificates(name: str, line: Line, block: Block, values: dict[str, object], imported: Imported) -> None:
    report = imported.report
    if not block.flag("require_certificate"):
        report.taken(line, "clients are asked for no certificate, as there")
    elif "cafile" not in block.options:
        values["enabled"] = False
        text = "name the authorities of clients' certificates as client_ca, in one PEM file"
        report.not_taken(line, f"{text}; {CLOSED.format(name=name)}")
    elif line.name == "cafile":
        values["client_ca"] = line.value
        report.taken(line, f"listeners.{name}.client_ca")
    elif line.name == "use_identity_as_username":
        report.taken(line, f"listeners.{name}.certificate_user: common-name")
    elif block.flag("use_identity_as_username"):
        report.taken(line, f"listeners.{name}.client_ca")
    else:
        values["enabled"] = False
        text = "a certificate is the login here: its client is the user of its common name, and asked for no password"
        report.not_taken(line, f"{text}; {CLOSED.format(name=name)}")
