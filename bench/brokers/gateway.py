"""Sluicegate as a measured broker: started as an operator starts it, one process with fsync and its ports."""

import json
import os
import sys
import urllib.error
import urllib.request
from dataclasses import replace
from typing import Any, ClassVar, Final, final

from bench.brokers.broker import (
    LOG_TAIL_CHARACTERS,
    Addresses,
    Broker,
    BrokerError,
    accept_connections,
    free_ports,
    make_certificate,
    modified_ns,
)
from bench.load.plan import AMQP, FLOW, HTTP, MQTT, MQTT_TLS, MQTT_WEBSOCKET, LoadPlan
from bench.wire import mqtt as wire

HTTP_TIMEOUT_S: Final = 30.0
_ADMIN: Final = "admin"  # its port's name, beside those of the protocols; it is opened when all others are
_CONNECTIONS_MAX: Final = 100_000


class Sluicegate(Broker):
    """The broker under test."""

    kind = "sluicegate"
    brokers: ClassVar[int] = 1  # processes, which are one to clients

    @classmethod
    def is_installed(cls) -> bool:
        """Return True: the benchmark requires it."""
        return True

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.directory.name

    @property
    def admin_url(self) -> str:
        """The URL of the admin port."""
        host, port = self.address_of(_ADMIN)
        return f"http://{host}:{port}"

    def create_queue(self, name: str, topic_filter: str | None, **attributes: str | int) -> None:
        """Create a durable queue, with a subscription to `topic_filter` if it is given."""
        subscriptions = [topic_filter] if topic_filter else []
        self.admin("POST", "/queues", {"name": name, "subscriptions": subscriptions, **attributes})

    def admin(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the answer of the admin port, None for an empty one. Raises BrokerError for a refusal."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.admin_url}{path}", data=data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=HTTP_TIMEOUT_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as refusal:
            text = refusal.read()[:LOG_TAIL_CHARACTERS].decode(errors="replace")
            raise BrokerError(f"{method} {path} was refused: {refusal.code} {text}") from refusal
        return json.loads(text) if text else None

    def another(self, name: str, *, beside: bool = False) -> "Sluicegate":
        """Start one more, in a folder below this one's, on the cores of the generator, or `beside` this one."""
        cores = self._cores if beside else frozenset(os.sched_getaffinity(0))
        return Sluicegate(self.directory / name, cores, self._conditions)

    def prepare(self, plan: LoadPlan) -> LoadPlan:
        """Create the queues of a plan, and return the plan with the gateway's addresses."""
        publishes_amqp = (plan.publisher_protocol or plan.protocol) == AMQP
        if plan.queue is None:
            addressed = plan if plan.protocol != AMQP else replace(plan, topic_filter=f"topic://{plan.topic_filter}")
            return addressed if not publishes_amqp else replace(addressed, topic=f"topic://{plan.topic}")
        for lane in range(plan.lanes):
            collected = None if publishes_amqp or plan.topic_filter is None else plan.topic_filter.format(lane=lane)
            self.create_queue(plan.queue.format(lane=lane), collected, **dict(plan.queue_attributes))
        return replace(
            plan,
            topic=plan.queue if publishes_amqp else plan.topic,
            topic_filter=plan.queue if plan.protocol in (AMQP, FLOW) else f"$queue/{plan.queue}",
            subscriber_version=wire.MQTT_5,
        )

    def _command(self) -> list[str]:
        executable = self._conditions.executable
        program = (
            [str(executable)] if executable else [sys.executable, "-P", "-m", "sluicegate"]
        )  # -P: what is installed
        # The names of listeners in the configuration are those of our protocols.
        names = [MQTT, MQTT_WEBSOCKET, AMQP, FLOW, HTTP]
        settings = [f"listeners.{name}.max_connections={_CONNECTIONS_MAX}" for name in (MQTT, AMQP)]
        if self._conditions.tls:
            certificate, key = make_certificate(self.directory)
            names.append(MQTT_TLS)
            settings += [
                "listeners.mqtt_tls.enabled=true",
                f"listeners.mqtt_tls.certificate={certificate}",
                f"listeners.mqtt_tls.key={key}",
            ]
        *ports, admin_port = free_ports(len(names) + 1)
        settings += [f"listeners.{name}.port={port}" for name, port in zip(names, ports, strict=True)]
        settings += [
            f"admin.port={admin_port}",
            f"node.name={self.name}",  # links need a name, and the right to have them
            "authentication.client_profiles.0.name=default",
            "authentication.client_profiles.0.allow_bridge_connections_enabled=true",
        ]
        self._ports: Addresses = {name: ("127.0.0.1", port) for name, port in zip(names, ports, strict=True)}
        self._admin: Addresses = {_ADMIN: ("127.0.0.1", admin_port)}
        command = [*program, "serve", "--data", str(self.directory / "data")]
        if self.brokers > 1:
            command += ["--brokers", str(self.brokers)]
        for setting in settings:
            command += ["--set", setting]
        return command

    def state_written_ns(self) -> int:
        """Return when the last checkpoint was written."""
        return modified_ns(self.directory / "data" / "data.mdb")

    def _started_at(self) -> Addresses | None:
        return self._ports | self._admin if accept_connections(self._ports | self._admin) else None

    def _open_at(self) -> Addresses | None:
        return self._ports | self._admin if accept_connections(self._ports) else None


@final
class SluicegateOfTwo(Sluicegate):
    """The same with two broker processes on this machine: clients' homes are at both, as their names decide."""

    kind = "sluicegate-of-two"
    brokers = 2


@final
class SluicegateOfFour(Sluicegate):
    """The same with four: on fewer cores, processor time for each message is what it tells, and no rate."""

    kind = "sluicegate-of-four"
    brokers = 4
