"""The brokers to compare, by name."""

from pathlib import Path
from typing import Final

from bench.brokers.broker import Broker, BrokerError, Conditions
from bench.brokers.gateway import Sluicegate
from bench.brokers.peers import ActiveMq, Amqtt, Mosquitto, Nats, RabbitMq
from bench.brokers.placement import Cores

BROKERS: Final[dict[str, type[Broker]]] = {
    each.kind: each for each in (Sluicegate, Mosquitto, RabbitMq, ActiveMq, Nats, Amqtt)
}


def installed() -> list[str]:
    """Return the names of the installed brokers, Sluicegate first."""
    return [kind for kind, each in BROKERS.items() if each.is_installed()]


def start(kind: str, directory: Path, cores: Cores, conditions: Conditions) -> Broker:
    """Start a broker by name, on a directory of its own. Raises BrokerError."""
    if not BROKERS[kind].is_installed():
        raise BrokerError(f"{kind} is not installed; scripts/bench-needs installs what can be had")
    return BROKERS[kind](directory, cores, conditions)
