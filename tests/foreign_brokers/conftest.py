"""Bridges to brokers of other makers: `make test-bridges` installs those and runs these tests, no other run does."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.foreign.brokers import (
    ActiveMq,
    AnyBroker,
    ForeignBroker,
    Mosquitto,
    Nats,
    RabbitMq,
    RabbitMq3,
    RabbitMq4,
    running,
)

WANTED = os.environ.get("SLUICEGATE_FOREIGN_BROKERS") == "1"
AMQP_BROKERS = (RabbitMq3, RabbitMq4, ActiveMq)
MQTT_3_BROKERS = (Mosquitto, RabbitMq3, RabbitMq4, ActiveMq, Nats)
MQTT_5_BROKERS = (Mosquitto, RabbitMq4)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave them out, except where they are asked for: starting these brokers takes minutes."""
    return None if WANTED else True


@pytest.fixture(params=AMQP_BROKERS, ids=lambda kind: kind.name, scope="module")
def amqp_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignBroker]:
    """A foreign broker that speaks AMQP 1.0."""
    yield from started(request.param, tmp_path_factory)


@pytest.fixture(params=MQTT_3_BROKERS, ids=lambda kind: kind.name, scope="module")
def mqtt_3_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignBroker]:
    """A foreign broker that speaks MQTT 3.1.1."""
    yield from started(request.param, tmp_path_factory)


@pytest.fixture(params=MQTT_5_BROKERS, ids=lambda kind: kind.name, scope="module")
def mqtt_5_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignBroker]:
    """A foreign broker that speaks MQTT 5."""
    yield from started(request.param, tmp_path_factory)


@pytest.fixture(params=(RabbitMq3, RabbitMq4), ids=lambda kind: kind.name, scope="module")
def rabbitmq(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    """A RabbitMQ of its own."""
    yield from started(request.param, tmp_path_factory)


def started(kind: type[AnyBroker], tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    """Start a broker, and end it when all tests had it."""
    if not kind.is_installed():
        pytest.fail(f"{kind.name} is not installed; scripts/bridge-needs installs it or says why not")
    with running(kind(tmp_path_factory.mktemp(kind.name))) as broker:
        yield broker
