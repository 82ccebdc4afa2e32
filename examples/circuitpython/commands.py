"""Carry out commands for this board until Ctrl-C. What is sent while it sleeps waits for it."""

import time

from connection import LOST, NAME, clear, connect, leave


def carry_out(client, topic, command):
    """Do what a command says. The broker gets the acknowledgement when this returns."""
    print(f"command: {command}")


def listen():
    """Connect, and take commands. The broker keeps the session, with its subscription, for the next time."""
    client = connect(clean_session=False, on_message=carry_out)
    client.subscribe(f"devices/{NAME}/commands", qos=1)
    print("waiting for commands")
    return client


client = None
while True:
    try:
        if client is None:
            client = listen()  # `client.reconnect()` would begin a new session
        client.loop(timeout=1)
    except KeyboardInterrupt:
        if client is not None:
            leave(client)
        break
    except LOST as error:
        print(f"not connected: {error}")
        client = None
        clear()
        time.sleep(1)
