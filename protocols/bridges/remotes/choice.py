"""Which client library a foreign broker is spoken to with. It is imported with the first bridge that needs it."""

from importlib import import_module
from typing import Final

from sluicegate.protocols.bridges.remote import Line, RemoteBroker
from sluicegate.protocols.bridges.settings import BridgeSettings, Protocol

_REMOTES: Final = {
    Protocol.FLOW: ("flow", "FlowRemote", "sluicegate"),
    Protocol.MQTT_3: ("mqtt.mqtt_3", "Mqtt3Remote", "amqtt"),
    Protocol.MQTT_5: ("mqtt.mqtt_5", "Mqtt5Remote", "paho-mqtt"),
    Protocol.AMQP: ("amqp", "AmqpRemote", "python-qpid-proton"),
}


def make_remote(settings: BridgeSettings, line: Line) -> RemoteBroker:
    """Return the remote of a bridge. Raises ValueError for settings that it has no use for, or a missing library."""
    module, name, library = _REMOTES[settings.remote.protocol]
    try:
        found = import_module(f"sluicegate.protocols.bridges.remotes.{module}")
    except ImportError as missing:
        if missing.name is not None and missing.name.startswith("sluicegate"):
            raise
        text = f"{settings.remote.protocol.value} needs {library}: pip install 'sluicegate[bridge]' ({missing})"
        raise ValueError(text) from None
    remote: type[RemoteBroker] = getattr(found, name)
    return remote(settings, line)
