"""One virtual host: what of the definitions is in it, and what it becomes."""

from dataclasses import dataclass, field
from typing import Any, Final, final

from sluicegate.gateway.importing.json_text import Item

ROOT: Final = "/"
PREDEFINED: Final = {  # exchanges that every virtual host has; a headers exchange under two names
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.topic": "topic",
}
TOPIC_EXCHANGE: Final = "amq.topic"  # the one that MQTT clients of RabbitMQ use


@final
@dataclass(slots=True)
class VirtualHost:
    """A virtual host, and the section of its message VPN."""

    name: str
    vpn: str
    section: dict[str, Any]
    queues: list[Item] = field(default_factory=list)
    exchanges: list[Item] = field(default_factory=list)
    bindings: list[Item] = field(default_factory=list)
    policies: list[Item] = field(default_factory=list)
    operator_policies: list[Item] = field(default_factory=list)
    permissions: list[Item] = field(default_factory=list)
    topic_permissions: list[Item] = field(default_factory=list)
    declared: dict[str, dict[str, Any]] = field(default_factory=dict)  # queues as they are written, by name

    def types(self) -> dict[str, str]:
        """Return the type of each exchange, by name; of delayed ones that of the exchange behind."""
        types = {**PREDEFINED}
        for each in self.exchanges:
            kind = each.text("type", "direct")
            arguments = each.values.get("arguments") or {}
            if kind == "x-delayed-message" and isinstance(arguments, dict):
                kind = str(arguments.get("x-delayed-type", "direct"))
            types[each.text("name")] = kind
        return types

    def bound(self, exchange: str) -> list[Item]:
        """Return the bindings from an exchange to queues."""
        return [
            each
            for each in self.bindings
            if each.text("source") == exchange and each.text("destination_type", "queue") == "queue"
        ]
