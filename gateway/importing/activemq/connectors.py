"""Transport connectors as listeners, network connectors as bridges that are switched off."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from sluicegate.gateway.importing.activemq.policies import Policies
from sluicegate.gateway.importing.activemq.values import is_placeholder
from sluicegate.gateway.importing.imported import Imported
from sluicegate.gateway.importing.names import unique
from sluicegate.gateway.importing.report import ImportFailed
from sluicegate.gateway.importing.xml_text import Element

_URI: Final = re.compile(
    r"([a-z+]+)://(\[[^\]]*\]|[^:/?]*)(?::([0-9]{1,5}))?([^?]*)(?:\?(.*))?", re.IGNORECASE | re.DOTALL
)
LISTENERS: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {
        "amqp": ("amqp", 5672), "amqp+nio": ("amqp", 5672),
        "amqp+ssl": ("amqp_tls", 5671), "amqp+nio+ssl": ("amqp_tls", 5671),
        "mqtt": ("mqtt", 1883), "mqtt+nio": ("mqtt", 1883),
        "mqtt+ssl": ("mqtt_tls", 8883), "mqtt+nio+ssl": ("mqtt_tls", 8883),
        "ws": ("mqtt_websocket", 61614), "wss": ("mqtt_websocket_tls", 61619),
    }
)  # fmt: skip
CONNECTIONS_MAX: Final = 1_000_000
OTHER: Final = "OpenWire, STOMP and HTTP of ActiveMQ are not spoken: use AMQP 1.0 (Qpid JMS) or MQTT"
AMQP_PORT: Final = 5672


def take_transport_connectors(broker: Element, imported: Imported) -> None:
    """Take the transport connectors. Raises ImportFailed."""
    report = imported.report
    for each in broker.all("transportConnector"):
        uri = each.get("uri")
        each.get("name")
        setting = each.setting()
        if is_placeholder(uri):
            report.not_taken(setting, f"{uri}: its address is in another file; set a listener")
            continue
        found = _URI.fullmatch(uri.strip())
        if found is None:
            raise ImportFailed(setting.where, f"uri {uri!r} is no address; allowed: SCHEME://HOST:PORT")
        scheme = found[1].lower()
        if scheme not in LISTENERS:
            report.not_taken(setting, f"{uri}: {OTHER}")
            continue
        name, port = LISTENERS[scheme]
        listeners = imported.section("listeners")
        if name in listeners:
            report.not_taken(setting, f"there is one listener for each protocol and transport, and {name} is another")
            continue
        host = {"localhost": "127.0.0.1", "": "0.0.0.0"}.get(found[2].lower(), found[2].strip("[]"))
        listeners[name] = {"enabled": True, "host": host, "port": int(found[3] or port)}
        report.taken(setting, f"listeners.{name}: {host}:{found[3] or port}")
        if name.startswith("mqtt_websocket"):
            listeners[name]["path"] = found[4] or "/"
            imported.put("mqtt.allowed_origins", ["*"])
            report.differs(setting, "MQTT only; web pages of every origin may use it: see mqtt.allowed_origins")
        if found[5]:
            _options(each, found[5], listeners[name], imported)


def _options(connector: Element, query: str, listener: dict[str, Any], imported: Imported) -> None:
    for option in query.split("&"):
        key, _, value = option.partition("=")
        key = key.removeprefix("transport.")
        setting = connector.setting("uri")
        if key == "maximumConnections" and re.fullmatch("[0-9]{1,18}", value):
            listener["max_connections"] = min(max(int(value), 1), CONNECTIONS_MAX)
            imported.report.taken(setting, f"max_connections: {listener['max_connections']}")
        elif key == "needClientAuth" and value.lower() != "false":
            listener["enabled"] = False
            imported.report.not_taken(
                setting, "needClientAuth: name the authority as client_ca, and enable the listener"
            )
        elif key.startswith("wireFormat.max"):
            imported.report.differs(setting, f"{key}: see mqtt.maximum_packet_size and amqp.max_message_size")
        else:
            imported.report.not_taken(setting, f"{key}: there is no such option")


def take_network_connectors(broker: Element, policies: Policies, imported: Imported) -> None:
    """Take the network connectors. Raises ImportFailed."""
    for each in broker.all("networkConnector"):
        addresses = re.findall(r"(?:tcp|nio|ssl|auto)://(\[[^\]]*\]|[^:/?,()]+)(?::[0-9]+)?", each.get("uri"))
        setting = each.setting()
        text = "brokers that are all Sluicegate have links; to an ActiveMQ use a bridge over AMQP 1.0"
        queues = [*_queues(each, "staticallyIncludedDestinations"), *_queues(each, "dynamicallyIncludedDestinations")]
        rules = [
            {"queue": name, "remote_queue": name}
            for name in dict.fromkeys(queues)
            if not {"*", ">"} & {*name} and not policies.declare(name)
        ]
        for attribute in each.attributes:
            if attribute not in ("name", "uri"):
                imported.report.not_taken(each.setting(attribute), text)
        for inner in each.children:
            inner.note(imported.report.differs, "rules of the bridge are of queues with literal names")
        if len(addresses) != 1 or is_placeholder(addresses[0]) or not rules:
            imported.report.not_taken(setting, f"{each.get('uri')}: {text}")
            continue
        plain = re.sub(r"[^A-Za-z0-9._-]", "-", each.get("name", "network")).lstrip("._-") or "network"
        bridges = imported.section("").setdefault("bridges", [])
        bridge: dict[str, Any] = {
            "name": unique(plain, [other["name"] for other in bridges], 140),
            "enabled": False,
            "remote_url": f"amqp://{addresses[0]}:{AMQP_PORT}",
        }
        if each.get("userName"):
            bridge["username"] = each.get("userName")
            bridge["password_file"] = imported.secrets.add(f"bridge-{bridge['name']}", each.get("password"))
        bridges.append({**bridge, "outgoing": rules})
        imported.report.taken(setting, f"bridges: {bridge['name']}, with enabled: false: look at its address and rules")
        imported.report.differs(setting, f"messages go there whether or not it has consumers; {text}")


def _queues(connector: Element, kind: str) -> Iterator[str]:
    for holder in connector.children:
        if holder.name == kind:
            for each in holder.children:
                if each.name == "queue":
                    yield each.get("physicalName")
