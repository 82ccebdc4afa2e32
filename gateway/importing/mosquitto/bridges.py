"""Bridges of mosquitto: each `connection` is a bridge here, each `topic` one or two of its rules.

What goes out with QoS 1 or 2 waits in a queue of its own while the other broker is away, as it waits in mosquitto's
session. What goes out with QoS 0 does not wait.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from sluicegate.gateway.config.sections.message_vpns.bridges import Bridge
from sluicegate.gateway.config.settings.bridge_conflicts import conflicts
from sluicegate.gateway.config.settings.bridges import refused_rules
from sluicegate.gateway.importing.imported import Imported
from sluicegate.gateway.importing.mosquitto.conf import Block, Line, MosquittoConf
from sluicegate.gateway.importing.report import UNKNOWN, ImportFailed, Report, Setting
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.topics.relations import covers
from sluicegate.messaging.topics.syntax import Syntax, TopicError, parse_filter

DIRECTIONS: Final = ("in", "out", "both")
KEEP_ALIVE_S_MAX: Final = 3600
RETRY_S_MAX: Final = 300
PACKET_BYTES_MIN, PACKET_BYTES_MAX = 1024, 268_435_455
OS_CERTIFICATES: Final = "bridge_tls_use_os_certs"
EMPTY: Final = '""'  # how mosquitto writes an empty prefix or pattern

DIFFERENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bridge_attempt_unsubscribe": "a bridge unsubscribes from what it no longer wants",
        "bridge_tls_version": "TLS 1.2 and newer",
        "bridge_ciphers": "TLS 1.2 and newer with OpenSSL's own choice of ciphers",
        "idle_timeout": "a bridge stays connected",
        "local_cleansession": "messages for the other broker wait in a queue",
        "notifications": "show bridge, sluicegate_bridge_up and VPN_BRIDGING_LINK_UP say it; nothing is published",
        "notifications_local_only": "show bridge, sluicegate_bridge_up and VPN_BRIDGING_LINK_UP say it",
        "notification_topic": "show bridge, sluicegate_bridge_up and VPN_BRIDGING_LINK_UP say it; nothing is published",
        "start_type": "a bridge connects when the broker starts, and stays connected",
        "threshold": "a bridge stays connected",
        "try_private": "MQTT 5 has No Local, and each message has the path that it came by: there are no circles",
    }
)
NOTHING_LIKE_IT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "addresses": "a bridge has one address: name the others in DNS, or in bridges of their own",
        "bridge_alpn": "the protocol is not negotiated in TLS",
        "bridge_bind_address": "the operating system chooses the address",
        "bridge_bind_interface": "the operating system chooses the interface",
        "bridge_capath": "authorities are one PEM file: join those of the folder, and name it as tls_authorities_file",
        "bridge_outgoing_retain": "RETAIN travels with a message",
        "bridge_receive_maximum": "window_messages is the number of unconfirmed messages",
        "bridge_reload_type": "a reload starts those bridges anew that have changed",
        "bridge_require_ocsp": "certificates are not looked up with OCSP",
        "bridge_session_expiry_interval": "see session_expiry_s",
        "bridge_tcp_keepalive": "the operating system's own",
        "bridge_tcp_user_timeout": "the operating system's own",
        "local_clientid": "inside of the broker a bridge needs no client identifier",
        "local_password": "inside of the broker a bridge needs no login",
        "local_username": "inside of the broker a bridge needs no login; ACL profiles do not concern it",
        "round_robin": "a bridge has one address",
    }
)
CLOSING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bridge_identity": "keys that both sides know (TLS-PSK) are not supported",
        "bridge_insecure": "the host name of the other broker is always verified",
        "bridge_psk": "keys that both sides know (TLS-PSK) are not supported",
    }
)
TLS_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bridge_cafile": "tls_authorities_file",
        "bridge_certfile": "tls_certificate_file",
        "bridge_keyfile": "tls_certificate_key_file",
    }
)


def take_bridges(conf: MosquittoConf, imported: Imported) -> None:
    """Take the bridges. Raises ImportFailed."""
    for block in conf.bridges:
        assert block.start is not None, "a bridge begins with a line"
        _Taker(block, block.start, imported).take()


class _Taker:
    """One bridge on its way here."""

    def __init__(self, block: Block, start: Line, imported: Imported) -> None:
        self._block = block
        self._start = start
        self._imported = imported
        self._report: Report = imported.report
        self._rules: dict[str, list[tuple[Line, dict[str, Any]]]] = {"outgoing": [], "incoming": []}
        self._queues: list[dict[str, Any]] = []
        others = [each["name"] for each in imported.configuration.get("bridges", ())]
        self._name = _unique(re.sub(r"[^A-Za-z0-9._-]", "-", start.value).lstrip("._-")[:140] or "bridge", others)
        self._bridge: dict[str, Any] = {"name": self._name}

    def take(self) -> None:
        for line in self._block.options.values():
            self._option(line)
        self._address()
        for line in self._block.topics:
            self._topic(line)
        self._version()
        self._drop_refused()
        for direction, rules in self._rules.items():
            if rules:
                self._bridge[direction] = [rule for _, rule in rules]
        kept = {rule.get("queue") for _, rule in self._rules["outgoing"]}
        declared = [each for each in self._queues if each["name"] in kept]
        if declared:
            self._imported.section("queues").setdefault("declared", []).extend(declared)
        self._imported.section("").setdefault("bridges", []).append(self._bridge)
        self._report.taken(self._start, f"bridges: {self._name}")

    def _address(self) -> None:
        line = self._block.options.get("address") or self._block.options.get("addresses")
        if line is None or not line.value:
            raise ImportFailed(self._start.where, f"connection {self._start.value!r} has no address")
        first, *others = line.value.split()
        host, colon, port = first.rpartition(":")
        if not colon or not re.fullmatch("[0-9]{1,5}", port) or (":" in host and not host.startswith("[")):
            host, port = first, ""
        has_tls = any(name in self._block.options for name in (*TLS_FILES, "bridge_capath", "bridge_psk"))
        has_tls = has_tls or self._block.flag(OS_CERTIFICATES)
        scheme = "mqtts" if has_tls else "mqtt"
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        self._bridge["remote_url"] = f"{scheme}://{host}:{port or '1883'}"
        self._report.taken(line, f"remote_url: {self._bridge['remote_url']}")
        if others:
            self._report.not_taken(line, NOTHING_LIKE_IT["addresses"])

    def _option(self, line: Line) -> None:
        name, bridge, report = line.name, self._bridge, self._report
        if name in DIFFERENT:
            report.differs(line, DIFFERENT[name])
        elif name in CLOSING:
            if line.value.lower() not in ("false", "0"):
                bridge["enabled"] = False
                report.not_taken(line, f"{CLOSING[name]}; the bridge is written with enabled: false")
            else:
                report.taken(line, "as here")
        elif name in NOTHING_LIKE_IT:
            report.not_taken(line, NOTHING_LIKE_IT[name])
        elif name == OS_CERTIFICATES:
            report.taken(line, f"remote_url: mqtt{'s' * line.flag()}")
        elif name.startswith("bridge_tls"):
            bridge["enabled"] = False
            report.not_taken(line, f"{UNKNOWN}; the bridge is written with enabled: false")
        elif name in TLS_FILES:
            bridge[TLS_FILES[name]] = line.value
            report.taken(line, TLS_FILES[name])
        elif name in ("remote_username", "username"):
            bridge["username"] = line.value
            report.taken(line, f"username: {line.value}")
        elif name in ("remote_password", "password"):
            bridge["password_file"] = self._imported.secrets.add(f"bridge-{self._name}", line.value)
            report.taken(line, "password_file")
        elif name in ("remote_clientid", "clientid"):
            bridge["client_id"] = line.value
            report.taken(line, f"client_id: {line.value}")
            report.differs(
                line, "two clients of one identifier disconnect each other: stop that bridge of mosquitto first"
            )
        else:
            self._number(line)

    def _number(self, line: Line) -> None:
        bridge, report = self._bridge, self._report
        if line.name == "keepalive_interval":
            bridge["keep_alive_s"] = min(max(line.number(), 1), KEEP_ALIVE_S_MAX)
            report.taken(line, f"keep_alive_s: {bridge['keep_alive_s']}")
        elif line.name == "cleansession":
            bridge["session_expiry_s"] = 0 if line.flag() else 86_400
            report.taken(line, f"session_expiry_s: {bridge['session_expiry_s']}")
            if not line.flag():
                report.differs(line, "the other broker keeps the session for a day; with MQTT 3.1.1 for good")
        elif line.name == "restart_timeout":
            base = line.value.split()[0] if line.value else ""
            if not re.fullmatch("[0-9]+", base):
                raise ImportFailed(line.where, f"restart_timeout {line.value!r} is not allowed; allowed: seconds")
            bridge["retry_delay_s"] = min(max(int(base[:9]), 1), RETRY_S_MAX)
            report.taken(line, f"retry_delay_s: {bridge['retry_delay_s']}")
            report.differs(line, "the delay doubles with each failure, up to a minute")
        elif line.name == "bridge_max_packet_size" and line.number():
            bridge["maximum_packet_size"] = min(max(line.number(), PACKET_BYTES_MIN), PACKET_BYTES_MAX)
            report.taken(line, f"maximum_packet_size: {bridge['maximum_packet_size']}")
        elif line.name == "bridge_max_packet_size":
            report.differs(line, "there is always a limit: maximum_packet_size is 32 MiB")

    # --- topics ---

    def _topic(self, line: Line) -> None:
        words = [("" if word == EMPTY else word) for word in line.value.split()]
        pattern = words[0] if words else ""
        direction = words[1] if len(words) > 1 else "out"
        qos = words[2] if len(words) > 2 else "0"
        local, remote = (words[3] if len(words) > 3 else ""), (words[4] if len(words) > 4 else "")
        if not words or direction not in DIRECTIONS or qos not in ("0", "1", "2") or len(words) > 5:
            allowed = "topic PATTERN [in|out|both [0|1|2 [LOCAL-PREFIX [REMOTE-PREFIX]]]]"
            raise ImportFailed(line.where, f"{line.text!r} is no topic of a bridge; allowed: {allowed}")
        if direction in ("out", "both"):
            self._outgoing(line, pattern, int(qos), local, remote)
        if direction in ("in", "both"):
            self._incoming(line, pattern, int(qos), local, remote)

    def _outgoing(self, line: Line, pattern: str, qos: int, local: str, remote: str) -> None:
        rule: dict[str, Any] = {"qos": qos}
        if not qos:
            rule["topic"] = local + pattern
        else:
            rule["queue"] = f"bridge/{self._name}/{len(self._queues) + 1}"
            self._queues.append(
                {"name": rule["queue"], "owner": f"#bridge/{self._name}", "permission": "no-access",
                 "subscriptions": [local + pattern]}
            )  # fmt: skip
            self._report.differs(
                line,
                f"it waits in the queue {rule['queue']}, which holds up to 5000 MiB",
            )
        if not pattern:
            rule["remote_topic"] = remote
        else:
            rule |= {key: value for key, value in (("strip_prefix", local), ("add_prefix", remote)) if value}
        self._rules["outgoing"].append((line, rule))
        self._report.taken(line, f"bridges: {self._name}: outgoing: {local}{pattern} to {remote}{pattern}")

    def _incoming(self, line: Line, pattern: str, qos: int, local: str, remote: str) -> None:
        rule: dict[str, Any] = {"remote_topic": remote + pattern, "qos": qos}
        if not pattern:
            rule["topic"] = local
        else:
            rule |= {key: value for key, value in (("strip_prefix", remote), ("add_prefix", local)) if value}
        self._drop_covered(line, rule)
        self._rules["incoming"].append((line, rule))
        self._report.taken(line, f"bridges: {self._name}: incoming: {remote}{pattern} to {local}{pattern}")

    def _drop_covered(self, line: Line, rule: dict[str, Any]) -> None:
        """Leave out earlier rules whose messages this one brings as well, to the same topics."""
        mapping = (rule.get("strip_prefix"), rule.get("add_prefix"), rule.get("topic"))
        for earlier in [*self._rules["incoming"]]:
            _, other = earlier
            if (other.get("strip_prefix"), other.get("add_prefix"), other.get("topic")) != mapping:
                continue
            with suppress(TopicError):  # what is no topic filter is refused below
                wide = parse_filter(rule["remote_topic"], Syntax.MQTT)
                if covers(wide, parse_filter(other["remote_topic"], Syntax.MQTT)):
                    self._rules["incoming"].remove(earlier)
                    rule["qos"] = max(rule["qos"], other["qos"])
                    self._report.differs(earlier[0], f"its messages come by the rule of {line.where}, once")

    # --- the version, and rules that are refused here ---

    def _version(self) -> None:
        """Choose MQTT 5, except where 3.1.1 is asked for and there can be no circle."""
        line = self._block.options.get("bridge_protocol_version")
        setting: Setting = line or Setting("", f"connection {self._start.value}")
        if line is not None and line.value in ("mqttv31", "mqttv311"):
            self._bridge["mqtt_version"] = "3.1.1"
            if self._bridge.get("session_expiry_s"):
                del self._bridge["session_expiry_s"]  # of 3.1.1 it is for good
            if not any("would come back" in reason for _, _, reason in self._refused()):
                self._report.taken(line, 'mqtt_version: "3.1.1"')
                return
            del self._bridge["mqtt_version"]
            self._report.differs(line, "MQTT 5 instead: with 3.1.1 its messages would go in circles")
        elif line is not None:
            self._report.taken(line, 'mqtt_version: "5"')
        self._report.differs(setting, "it speaks MQTT 5; for a broker that does not, set mqtt_version: '3.1.1'")

    def _refused(self) -> list[tuple[str, int, str]]:
        """Return direction, number and reason of the rules that `check-config` refuses."""
        rules = {name: [rule for _, rule in rules] for name, rules in self._rules.items()}
        try:
            bridge = _model({**self._bridge, **rules})
            node = self._imported.configuration["node"]["name"]
            others = [_model(each) for each in self._imported.configuration.get("bridges", ())]
            found = [*refused_rules(bridge), *conflicts(bridge, others, (), node=node, vpn=DEFAULT_VPN)]
        except ValidationError as error:
            places = [(each["loc"], str(each.get("ctx", {}).get("error", each["msg"]))) for each in error.errors()]
            return [(str(place[0]), _index(place), text) for place, text in places]
        return [(str(each.path[0]), _index(each.path), each.reason) for each in found]

    def _drop_refused(self) -> None:
        """Leave out what is refused, one rule after the other."""
        while refused := self._refused():
            direction, index, reason = refused[0]
            if direction == "client_id" and "client_id" in self._bridge:
                del self._bridge["client_id"]
                self._report.not_taken(self._start, f"its client identifier: {reason}")
                continue
            if direction not in self._rules or index < 0:
                raise ImportFailed(self._start.where, f"connection {self._start.value!r}: {reason}")
            line, _ = self._rules[direction].pop(index)
            self._report.not_taken(line, f"as {direction} rule: {reason}")


def _model(bridge: dict[str, Any]) -> Bridge:
    """Return a bridge without the files that it names, which may not be there."""
    files = (*TLS_FILES.values(), "password_file")
    return Bridge.model_validate({key: value for key, value in bridge.items() if key not in files})


def _index(place: tuple[int | str, ...]) -> int:
    return place[1] if len(place) > 1 and isinstance(place[1], int) else -1


def _unique(name: str, others: list[str]) -> str:
    return name if name not in others else _unique(f"{name}-2", others)
