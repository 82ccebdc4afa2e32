"""The brokers that can be measured, by name, and how each peer of Sluicegate is started.

Nothing limits a peer but its own speed. NATS is built by Go's tool and amqtt is a Python package; the others are
Debian's. `scripts/bench-needs` installs them. Where a setting suits one kind of traffic only, it is set for the traffic
of the case, as a user of that broker would do.
"""

import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final, final

from bench.brokers.broker import (
    START_TIMEOUT_S,
    WAIT_S,
    Addresses,
    Broker,
    BrokerError,
    Conditions,
    Cores,
    Traffic,
    accept_connections,
    found,
    free_ports,
    make_certificate,
    modified_ns,
)
from bench.brokers.gateway import Sluicegate, SluicegateOfFour, SluicegateOfTwo
from bench.brokers.replicated import ArtemisReplicated, NatsReplicated, RabbitMqReplicated, SluicegateReplicated
from bench.load.plan import AMQP, MQTT, MQTT_TLS, MQTT_WEBSOCKET, LoadPlan

_COMPILED_LATE_S: Final = 10.0  # until what runs often is machine code: Java's and Erlang's brokers begin slowly
_IN_FLIGHT_MAX: Final = 65_535  # of MQTT: packet ids
_NATS_IN_FLIGHT_MAX: Final = _IN_FLIGHT_MAX // 2  # it counts a subscription with QoS 2 twice

# Nothing limits mosquitto but its own speed: no persistence, no limit on what is queued or in flight (20 and 1000 in
# flight were no faster with QoS 1). Nagle's algorithm, its default, joins its small writes: 1.2 to 1.7 times the
# messages per CPU-second in bulk, but 0.8 of them when each message is waited for. So it gets the better of the two.
# No WebSocket port: Debian's would listen on every interface.
_MOSQUITTO: Final = """\
listener {port} 127.0.0.1
{tls}
allow_anonymous true
{persistence}
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay {no_delay}
log_type error
user root
"""
# It confirms before it saves. A save is of everything; the interval is that in which Sluicegate makes checkpoints when
# 10 MB come each second.
_MOSQUITTO_PERSISTENT: Final = """\
persistence true
persistence_location {directory}/
autosave_interval 3
"""
_MOSQUITTO_TLS: Final = """\
listener {port} 127.0.0.1
certfile {certificate}
keyfile {key}
"""

# Debian's own script changes to another user, who may not write to our directory; this one stands behind it.
_RABBITMQ_SERVER: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"
_RABBITMQ_PLUGINS: Final = "[rabbitmq_amqp1_0, rabbitmq_mqtt, rabbitmq_web_mqtt]."
_RABBITMQ: Final = """\
listeners.tcp.1 = 127.0.0.1:{amqp}
mqtt.listeners.tcp.1 = 127.0.0.1:{mqtt}
web_mqtt.tcp.ip = 127.0.0.1
web_mqtt.tcp.port = {web}
web_mqtt.ws_path = /mqtt
mqtt.allow_anonymous = true
mqtt.prefetch = {in_flight}
loopback_users = none
log.console = false
"""
# Of sessions that are kept: queues that sync each write before they confirm.
_RABBITMQ_PERSISTENT: Final = """\
mqtt.durable_queue_type = quorum
"""
_RABBITMQ_TLS: Final = """\
mqtt.listeners.ssl.1 = 127.0.0.1:{port}
ssl_options.certfile = {certificate}
ssl_options.keyfile = {key}
"""

# MQTT needs JetStream, its store; 8 MiB is the most that it recommends for a payload.
_NATS: Final = """\
server_name: bench
listen: "127.0.0.1:{client}"
max_payload: 8388608
jetstream {{ store_dir: "{store}"{sync} }}
mqtt {{ listen: "127.0.0.1:{mqtt}", max_ack_pending: {in_flight} }}
websocket {{ listen: "127.0.0.1:{web}", no_tls: true }}
"""
# Otherwise it syncs its files every two minutes, and a confirmed message is lost with the power. Needs NATS 2.10.
_NATS_PERSISTENT: Final = ", sync_interval: always"

_ACTIVEMQ_JARS: Final = (
    "/usr/share/activemq/lib/*",
    "/usr/share/activemq/lib/optional/*",
    "/usr/share/java/mqtt-client.jar",  # Debian's ActiveMQ forgets that its MQTT needs these
    "/usr/share/java/hawtdispatch.jar",
    "/usr/share/java/hawtdispatch-transport.jar",
)
# A thread for each connection: by NIO it sometimes closed one under load. A prefetch as large as in flight may be.
_ACTIVEMQ_URI: Final = (
    "broker:(mqtt://127.0.0.1:{port}?transport.activeMQSubscriptionPrefetch=32766)"
    "?persistent=true&useJmx=false&brokerName=bench&dataDirectory={data}"
)

_AMQTT: Final = """\
listeners:
  default:
    type: tcp
    bind: 127.0.0.1:{port}
    max_connections: 100000
plugins:
  amqtt.plugins.authentication.AnonymousAuthPlugin:
    allow_anonymous: true
"""


@final
class Mosquitto(Broker):
    """Eclipse mosquitto."""

    kind = "mosquitto"

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has the broker."""
        return found("mosquitto") is not None

    def _command(self) -> list[str]:
        port, tls_port = free_ports(2)
        self._ports: Addresses = {MQTT: ("127.0.0.1", port)}
        tls = ""
        if self._conditions.tls:
            certificate, key = make_certificate(self.directory)
            tls = _MOSQUITTO_TLS.format(port=tls_port, certificate=certificate, key=key)
            self._ports[MQTT_TLS] = ("127.0.0.1", tls_port)
        persistence = "persistence false"
        if self._conditions.persistent:
            persistence = _MOSQUITTO_PERSISTENT.format(directory=self.directory)
        no_delay = "true" if self._conditions.traffic is Traffic.SINGLE else "false"
        configuration = self.directory / "mosquitto.conf"
        configuration.write_text(_MOSQUITTO.format(port=port, tls=tls, no_delay=no_delay, persistence=persistence))
        return [found("mosquitto") or "mosquitto", "-c", str(configuration)]

    def state_written_ns(self) -> int:
        """Return when everything was saved last."""
        return modified_ns(self.directory / "mosquitto.db")

    def kill_when_saved(self) -> None:
        """Have it save everything, wait until it has, and kill it."""
        former = self.state_written_ns()
        self._process.send_signal(signal.SIGUSR1)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while self._conditions.persistent and self.state_written_ns() == former:
            if time.monotonic() > deadline_s:
                raise BrokerError(f"mosquitto saved nothing within {START_TIMEOUT_S} s")
            time.sleep(WAIT_S)
        self.kill()

    def _started_at(self) -> Addresses | None:
        return self._ports if accept_connections(self._ports) else None


@final
class RabbitMq(Broker):
    """RabbitMQ 3 of the distribution with its plugins for MQTT and AMQP 1.0."""

    kind = "rabbitmq"

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has the broker."""
        return Path(_RABBITMQ_SERVER).exists()

    def prepare(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan with the addresses of the AMQP 1.0 plugin, which creates a queue on attach."""
        plan = replace(plan, warm_up_s=_COMPILED_LATE_S)
        if plan.protocol != AMQP:
            return plan
        if plan.queue is None:
            address = "/topic/" + plan.topic.replace("/", ".")
            return replace(plan, topic=address if plan.publisher_protocol is None else plan.topic, topic_filter=address)
        if plan.publisher_protocol is not None:
            raise BrokerError("rabbitmq's queues get what AMQP clients publish")
        return replace(plan, topic=f"/queue/{plan.queue}", topic_filter=f"/queue/{plan.queue}")

    def _command(self) -> list[str]:
        amqp, mqtt, web, tls, node, mapper = free_ports(6)
        self._ports: Addresses = {
            AMQP: ("127.0.0.1", amqp),
            MQTT: ("127.0.0.1", mqtt),
            MQTT_WEBSOCKET: ("127.0.0.1", web),
        }
        configuration = _RABBITMQ.format(amqp=amqp, mqtt=mqtt, web=web, in_flight=_IN_FLIGHT_MAX)
        if self._conditions.persistent:
            configuration += _RABBITMQ_PERSISTENT
        if self._conditions.tls:
            certificate, key = make_certificate(self.directory)
            configuration += _RABBITMQ_TLS.format(port=tls, certificate=certificate, key=key)
            self._ports[MQTT_TLS] = ("127.0.0.1", tls)
        (self.directory / "plugins").write_text(_RABBITMQ_PLUGINS)
        (self.directory / "rabbitmq.conf").write_text(configuration)
        settings = {
            "HOME": self.directory,  # of the cookie that its processes know each other by
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_MNESIA_BASE": self.directory / "mnesia",
            "RABBITMQ_LOG_BASE": self.directory / "logs",
            "ERL_CRASH_DUMP": self.directory / "erl_crash.dump",
            "RABBITMQ_ENABLED_PLUGINS_FILE": self.directory / "plugins",
            "RABBITMQ_CONFIG_FILE": self.directory / "rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_DIST_PORT": node,
            "ERL_EPMD_PORT": mapper,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        # Erlang's port mapper would become a daemon that outlives everything; this one is of our process group.
        script = 'epmd -port "$ERL_EPMD_PORT" & exec "$0"'
        return ["env", *(f"{name}={value}" for name, value in settings.items()), "sh", "-c", script, _RABBITMQ_SERVER]

    def _started_at(self) -> Addresses | None:
        return self._ports if "completed with" in self._log_tail() else None


@final
class Nats(Broker):
    """NATS with its server's MQTT and JetStream."""

    kind = "nats"

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has the broker."""
        return found("nats-server") is not None

    def _command(self) -> list[str]:
        client, mqtt, web = free_ports(3)
        self._ports: Addresses = {MQTT: ("127.0.0.1", mqtt), MQTT_WEBSOCKET: ("127.0.0.1", web)}
        configuration = self.directory / "nats.conf"
        store = self.directory / "store"
        sync = _NATS_PERSISTENT if self._conditions.persistent else ""
        configuration.write_text(
            _NATS.format(client=client, mqtt=mqtt, web=web, store=store, sync=sync, in_flight=_NATS_IN_FLIGHT_MAX)
        )
        return [found("nats-server") or "nats-server", "-c", str(configuration)]

    def _started_at(self) -> Addresses | None:
        return self._ports if "Server is ready" in self._log_tail() else None


@final
class ActiveMq(Broker):
    """ActiveMQ 5 with its MQTT and its store."""

    kind = "activemq"

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has the broker, and the libraries for its MQTT."""
        return found("java") is not None and all(Path(jar.rstrip("*")).exists() for jar in _ACTIVEMQ_JARS)

    def prepare(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan with a longer warm-up."""
        return replace(plan, warm_up_s=_COMPILED_LATE_S)

    def _command(self) -> list[str]:
        (port,) = free_ports(1)
        self._ports: Addresses = {MQTT: ("127.0.0.1", port)}
        uri = _ACTIVEMQ_URI.format(port=port, data=self.directory / "data")
        folders = [f"-Dactivemq.{name}={self.directory}" for name in ("home", "base", "conf", "data")]
        main = "org.apache.activemq.console.Main"
        return [found("java") or "java", "-Xmx2g", "-cp", ":".join(_ACTIVEMQ_JARS), *folders, main, "start", uri]

    def _started_at(self) -> Addresses | None:
        return self._ports if accept_connections(self._ports) else None


@final
class Amqtt(Broker):
    """amqtt, a broker in pure Python."""

    kind = "amqtt"

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether it is installed beside this Python."""
        return _amqtt().exists()

    def _command(self) -> list[str]:
        (port,) = free_ports(1)
        self._ports: Addresses = {MQTT: ("127.0.0.1", port)}
        configuration = self.directory / "amqtt.yaml"
        configuration.write_text(_AMQTT.format(port=port))
        return [str(_amqtt()), "-c", str(configuration)]

    def _started_at(self) -> Addresses | None:
        return self._ports if accept_connections(self._ports) else None


def _amqtt() -> Path:
    return Path(sys.executable).with_name("amqtt")


BROKERS: Final[dict[str, type[Broker]]] = {
    each.kind: each
    for each in (
        *(Sluicegate, SluicegateOfTwo, SluicegateOfFour, SluicegateReplicated),
        *(Mosquitto, RabbitMq, RabbitMqReplicated, ActiveMq, ArtemisReplicated, Nats, NatsReplicated, Amqtt),
    )
}


def installed() -> list[str]:
    """Return the names of the installed brokers, Sluicegate first."""
    return [kind for kind, each in BROKERS.items() if each.is_installed()]


def start(kind: str, directory: Path, cores: Cores, conditions: Conditions) -> Broker:
    """Start a broker by name, on a directory of its own. Raises BrokerError."""
    if not BROKERS[kind].is_installed():
        raise BrokerError(f"{kind} is not installed; scripts/bench-needs installs what can be had")
    return BROKERS[kind](directory, cores, conditions)
