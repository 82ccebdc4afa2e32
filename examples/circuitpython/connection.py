"""Connect a board to the broker. On a computer, where there is no Wi-Fi module, the programs use its network."""

import os
import ssl

import adafruit_connection_manager
import adafruit_minimqtt.adafruit_minimqtt as mqtt

try:
    import wifi  # a board: settings.toml has the names of its network, and it is connected already

    sockets = adafruit_connection_manager.get_radio_socketpool(wifi.radio)
except ImportError:
    import socket as sockets

NAME = os.getenv("BOARD_NAME") or "board-1"  # each board has a name of its own
LOST = (OSError, mqtt.MMQTTException)  # what the client raises when its connection is gone


def connect(clean_session=True, on_message=None):
    """Return a client that is connected. If the board is lost, the broker says so on a topic of the board."""
    host, _, port = (os.getenv("MQTT_URL") or "mqtt://127.0.0.1:1883").split("://")[-1].partition(":")
    client = mqtt.MQTT(
        broker=host,
        port=int(port or 1883),
        client_id=NAME,
        keep_alive=30,
        socket_pool=sockets,
        ssl_context=ssl.create_default_context(),
    )
    client.will_set(f"devices/{NAME}/state", "lost", qos=1, retain=True)
    client.on_message = on_message  # before the connection: what waits for the board comes at once
    client.connect(clean_session=clean_session)
    client.publish(f"devices/{NAME}/state", "here", qos=1, retain=True)
    return client


def clear():
    """Close what is left of a lost connection. MiniMQTT does not, and then cannot connect to the broker again."""
    adafruit_connection_manager.connection_manager_close_all()


def leave(client):
    """Disconnect. Without this the board counts as lost."""
    client.publish(f"devices/{NAME}/state", "away", qos=1, retain=True)
    client.disconnect()
