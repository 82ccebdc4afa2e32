"""The settings of a bridge, made as the gateway makes them."""

from typing import Any

from sluicegate.gateway.config.sections.message_vpns.bridges import Bridge
from sluicegate.gateway.config.settings.bridges import settings_of
from sluicegate.protocols.bridges.settings import BridgeSettings


def settings(**given: Any) -> BridgeSettings:
    """Return settings with these keys of the configuration beside a name and a URL."""
    configured = Bridge.model_validate({"name": "b", "remote_url": "mqtt://127.0.0.1:1883", **given})
    return settings_of(configured, node="node", vpn="default")
