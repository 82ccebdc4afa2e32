"""One dump of SEMP v2 as a configuration of this broker."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from sluicegate.gateway.admin.semp.objects.message_vpns import VPN
from sluicegate.gateway.config.sections.message_vpns.message_vpns import MessageVpn
from sluicegate.gateway.importing.imported import Imported, SecretFiles
from sluicegate.gateway.importing.json_text import Item, read_json
from sluicegate.gateway.importing.names import vpn_name
from sluicegate.gateway.importing.report import ImportFailed, Report, Setting
from sluicegate.gateway.importing.solace.objects import collection, take_bridges, take_clients, take_queues
from sluicegate.gateway.importing.solace.settings import take_settings
from sluicegate.messaging.message.vpn import DEFAULT_VPN

OWN_VPN: Final = "#"
EVERYWHERE: Final = "0.0.0.0"
LISTENERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "serviceAmqpPlainText": "amqp",
        "serviceAmqpTls": "amqp_tls",
        "serviceMqttPlainText": "mqtt",
        "serviceMqttTls": "mqtt_tls",
        "serviceMqttWebSocket": "mqtt_websocket",
        "serviceMqttTlsWebSocket": "mqtt_websocket_tls",
        "serviceRestIncomingPlainText": "http",
        "serviceRestIncomingTls": "http_tls",
    }
)
BASIC: Final = "authenticationBasicEnabled"
PORTS: Final = tuple(f"{each}{end}" for each in LISTENERS for end in ("Enabled", "ListenPort"))
OTHER_COLLECTIONS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(  # with the key of an object's name
    {
        "dmrBridges": ("remoteNodeName", "links between brokers: see network.md"),
        "mqttRetainCaches": ("cacheName", "every broker retains messages"),
        "mqttSessions": ("mqttSessionClientId", "sessions begin anew: a client that connects here subscribes again"),
        "replayLogs": ("replayLogName", "give the queues retention_time_s: see bulk.md"),
        "restDeliveryPoints": (
            "restDeliveryPointName",
            "REST delivery points have the same attributes here: see rest-delivery-points.md",
        ),
        "topicEndpoints": (
            "topicEndpointName",
            "a durable subscription has a queue of its own, or declare a queue with the topic",
        ),
    }
)
PROTOCOLS: Final = "Solace's own API (SMF) is not spoken: its clients use AMQP 1.0 (Qpid JMS), MQTT or HTTP"


def import_solace(path: str, text: str, *, node: str, folder: str) -> Imported:
    """Return the configuration that a dump becomes. Raises ImportFailed."""
    root = read_json(text, path, "dump")
    root.skip("meta", "links", "collections", "sempVersion")
    imported = Imported({"node": {"name": node}}, SecretFiles(folder), Report())
    imported.put("authentication.allow_anonymous", False)
    vpns = _vpns(root)
    taken: list[str] = []
    reserved = [DEFAULT_VPN] if any(each.text("msgVpnName") == DEFAULT_VPN for each in vpns) else []
    for vpn in vpns:
        given = vpn.text("msgVpnName")
        if given.startswith(OWN_VPN):
            imported.report.taken(vpn.setting(), "of the broker itself")
            vpn.skip()
            continue
        name = vpn_name(given, taken + (reserved if given != DEFAULT_VPN else []))
        taken.append(name)
        _take_vpn(vpn, name, imported)
    imported.report.differs(Setting("", "protocols"), PROTOCOLS)
    root.document.finish(imported.report)
    return imported


def _vpns(root: Item) -> list[Item]:
    """Return the message VPNs of a dump: of a list, of responses of SEMP, or of one object. Raises ImportFailed."""
    if "msgVpns" in root.values:
        found = collection(root, "msgVpns", "message VPN", "msgVpnName")
    elif isinstance(root.values.get("data"), list):
        found = root.items("data", "message VPN", "msgVpnName")
    elif "msgVpnName" in root.values:
        root.label = f"message VPN {root.values['msgVpnName']!r}"
        found = [root]
    else:
        found = []
    if not found or any(not each.text("msgVpnName") for each in found):
        raise ImportFailed(
            f"{root.document.file}:1",
            "this is no dump of SEMP v2; allowed: msgVpns, each with its msgVpnName",
        )
    return found


def _take_vpn(vpn: Item, name: str, imported: Imported) -> None:
    report = imported.report
    section = imported.configuration if name == DEFAULT_VPN else imported.section("vpns").setdefault(name, {})
    made: dict[str, Any] = {"enabled": False}
    take_settings(vpn, VPN, made, _vpn_problem, report, apart=(*PORTS, BASIC))
    anonymous = made.pop("allow_anonymous", False) and vpn.flag(BASIC, True)
    if BASIC in vpn.values:
        report.taken(vpn.setting(BASIC), f"authentication.allow_anonymous: {str(anonymous).lower()}")
    settings = section.setdefault("vpn", {}) if name == DEFAULT_VPN else section
    settings |= made
    section.setdefault("authentication", {})["allow_anonymous"] = anonymous
    report.taken(vpn.setting(), f"message VPN {name}")
    take_queues(vpn, section, report)
    take_clients(vpn, section, imported)
    take_bridges(vpn, section, imported)
    _listeners(vpn, name, imported)
    for key, value in vpn.values.items():
        if isinstance(value, list | dict) and key in OTHER_COLLECTIONS:
            name_key, text = OTHER_COLLECTIONS[key]
            for each in collection(vpn, key, key.removesuffix("s"), name_key):
                report.not_taken(each.setting(), text)
                each.skip()


def _vpn_problem(made: dict[str, Any]) -> str:
    own = {key: value for key, value in made.items() if key not in ("name", "allow_anonymous")}
    try:
        MessageVpn.model_validate(own)
    except ValidationError as error:
        return "; ".join(each["msg"] for each in error.errors())
    return ""


def _listeners(vpn: Item, name: str, imported: Imported) -> None:
    """Take the ports of a message VPN: here a port is for clients of all, and has one for those that name none."""
    listeners = imported.section("listeners")
    for service, listener in LISTENERS.items():
        enabled, port = f"{service}Enabled", f"{service}ListenPort"
        if enabled not in vpn.values and port not in vpn.values:
            continue
        number = vpn.number(port)
        is_on = vpn.flag(enabled) and 0 < number <= 65_535
        for key in (enabled, port):
            if key not in vpn.values:
                continue
            if not is_on:
                imported.report.taken(vpn.setting(key), "closed")
            elif listener in listeners and listeners[listener]["vpn"] != name:
                text = f"listeners.{listener} has one port: clients of {name} name it, as USER@{name}"
                imported.report.not_taken(vpn.setting(key), text)
            else:
                listeners[listener] = {"enabled": True, "host": EVERYWHERE, "port": number, "vpn": name}
                imported.report.taken(vpn.setting(key), f"listeners.{listener}: {EVERYWHERE}:{number}")
