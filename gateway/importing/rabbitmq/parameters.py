"""Parameters of virtual hosts: limits, and shovels, which become bridges."""

import re
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from sluicegate.gateway.importing.imported import Imported
from sluicegate.gateway.importing.json_text import Item
from sluicegate.gateway.importing.names import unique
from sluicegate.gateway.importing.rabbitmq.vhost import VirtualHost
from sluicegate.gateway.importing.report import Setting

LOCAL: Final = ("", "localhost", "127.0.0.1", "::1")
BRIDGE_CHARS_MAX: Final = 140
PORTS: Final = {"amqp": 5672, "amqps": 5671}
VHOST_LIMITS: Final = {"max-connections": "max_connection_count", "max-queues": "max_endpoint_count"}
IN_ONE_BROKER: Final = (
    "both ends are this broker or both are others: within one broker give the second queue the subscriptions of the "
    "first, or run a client that consumes and publishes"
)
FEDERATION: Final = "use a bridge: an incoming rule that consumes a queue of the upstream broker"


def take_parameter(parameter: Item, vhost: VirtualHost, imported: Imported) -> None:
    """Take one parameter. Raises ImportFailed."""
    component = parameter.text("component")
    parameter.skip("component", "vhost", "name")
    value = parameter.inner("value")
    if component == "vhost-limits":
        take_limits(value, vhost, imported)
    elif component == "shovel":
        _Shovel(parameter, value, vhost, imported).take()
    else:
        value.skip()
        text = FEDERATION if component.startswith("federation") else "this importer does not know it"
        imported.report.not_taken(parameter.setting(), f"{component}: {text}")


def take_limits(limits: Item, vhost: VirtualHost, imported: Imported) -> None:
    """Take the limits of a virtual host. Raises ImportFailed."""
    section = vhost.section if vhost.vpn != "default" else vhost.section.setdefault("vpn", {})
    for key in limits.values:
        name = VHOST_LIMITS.get(key, "")
        if not name:
            imported.report.not_taken(limits.setting(key), "this importer does not know it")
        elif limits.number(key) < 0:
            imported.report.taken(limits.setting(key), "no limit")
        else:
            section[name] = limits.number(key)
            imported.report.taken(limits.setting(key), f"{vhost.vpn}: {name}: {section[name]}")


class _Shovel:
    """A shovel between this broker and another one: a bridge, which is switched off until somebody has looked at it."""

    def __init__(self, parameter: Item, value: Item, vhost: VirtualHost, imported: Imported) -> None:
        self._name = parameter.text("name")
        self._parameter = parameter
        self._value = value
        self._vhost = vhost
        self._imported = imported

    def take(self) -> None:
        report, value = self._imported.report, self._value
        source, target = self._end("src"), self._end("dest")
        setting: Setting = self._parameter.setting()
        value.skip()
        if source is None or target is None:
            report.not_taken(setting, "a shovel of several addresses, or of another protocol than AMQP: use a bridge")
            return
        is_out = source.hostname is None or source.hostname in LOCAL
        remote = target if is_out else source
        if is_out == (target.hostname is None or target.hostname in LOCAL):
            report.not_taken(setting, IN_ONE_BROKER)
            return
        ours, theirs = ("src", "dest") if is_out else ("dest", "src")
        queue = value.text(f"{ours}-queue")
        if queue not in self._vhost.declared or not value.text(f"{theirs}-queue"):
            report.not_taken(
                setting, "only a shovel between two queues is taken, and ours has to be there: use a bridge"
            )
            return
        rule = {"queue": queue, "remote_queue": f"/queues/{value.text(f'{theirs}-queue')}"}
        self._vhost.section.setdefault("bridges", []).append(self._bridge(remote, is_out, rule))
        report.taken(setting, f"bridges: {self._name}: {rule}, with enabled: false")
        text = "a bridge speaks AMQP 1.0: RabbitMQ 4 does, older ones have other addresses (bridges-amqp.md)"
        report.differs(setting, text)

    def _end(self, side: str) -> Any:
        uri = self._value.values.get(f"{side}-uri")
        only = uri[0] if isinstance(uri, list) and len(uri) == 1 else uri
        if not isinstance(only, str):
            return None
        try:
            parts = urlsplit(only)
            return parts if parts.scheme in PORTS and parts.port != 0 else None
        except ValueError:
            return None

    def _bridge(self, remote: Any, is_out: bool, rule: dict[str, str]) -> dict[str, Any]:
        plain = re.sub(r"[^A-Za-z0-9._-]", "-", self._name).lstrip("._-")[:BRIDGE_CHARS_MAX] or "shovel"
        names = [each["name"] for each in self._vhost.section.get("bridges", ())]
        host = f"[{remote.hostname}]" if ":" in remote.hostname else remote.hostname
        path = unquote(remote.path.removeprefix("/"))
        bridge: dict[str, Any] = {
            "name": unique(plain, names, BRIDGE_CHARS_MAX),
            "enabled": False,
            "remote_url": f"{remote.scheme}://{host}:{remote.port or PORTS[remote.scheme]}",
        }
        if re.fullmatch(r"[A-Za-z0-9._-]+", path):
            bridge["remote_url"] += f"/{path}"
        if remote.username:
            bridge["username"] = unquote(remote.username)
            secret = unquote(remote.password or "")
            bridge["password_file"] = self._imported.secrets.add(f"bridge-{bridge['name']}", secret)
        bridge["outgoing" if is_out else "incoming"] = [rule]
        return bridge
