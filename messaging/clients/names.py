"""The names of clients that give themselves none: where a broker finds them, in lists, logs and commands of operators.

A client is named by itself where its protocol has a name for that: the client identifier of MQTT, the container id of
AMQP, the client name of the flow protocol. Else its broker names it. Such a name begins with `#` and the protocol, and
has the name of the broker, which is unique among the brokers of a machine and of a network. The identifiers that MQTT
clients are assigned are others (`homes.assigned_id`): these clients are told theirs, may come back with it, and use it
in topics, where `#` stands for others.
"""


def name_by_broker(protocol: str, broker: str, number: int) -> str:
    """Return the name of a client that gives itself none; `number` is one that no other client of the broker has."""
    return f"#{protocol}/{broker}/{number}"
