"""Brokers whose messages several servers keep, all of them on this machine.

Sluicegate, NATS and RabbitMQ have three servers with a majority. ActiveMQ Artemis has a primary and one backup: it
replicates to no second one. What is measured is the tree of one process, which starts all servers of a broker. They
sync each write, but RabbitMQ, whose Raft logs sync in batches, and the backup of Artemis.
"""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final, final

from bench.brokers.broker import Addresses, Broker, accept_connections, found, free_ports
from bench.brokers.gateway import Sluicegate
from bench.load.mqtt import open_session
from bench.load.plan import MQTT, LoadPlan
from bench.wire import mqtt as wire

NAMES: Final = ("a", "b", "c")
_LOG_BYTES: Final = "4 GiB"
_IN_FLIGHT_MAX: Final = 65_535
_RABBITMQ_SERVER: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"

_NATS: Final = """\
server_name: {name}
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{folder}", sync_interval: always }}
cluster {{ name: bench, listen: "127.0.0.1:{route}", routes: [{routes}] }}
{mqtt}
"""

_RABBITMQ: Final = """\
listeners.tcp.1 = 127.0.0.1:{amqp}
mqtt.listeners.tcp.1 = 127.0.0.1:{mqtt}
mqtt.allow_anonymous = true
mqtt.prefetch = {in_flight}
mqtt.durable_queue_type = quorum
loopback_users = none
log.console = false
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.classic_config.nodes.1 = a@localhost
cluster_formation.classic_config.nodes.2 = b@localhost
cluster_formation.classic_config.nodes.3 = c@localhost
"""

_ARTEMIS_JARS: Final = Path(__file__).resolve().parents[2] / "build" / "artemis"
_ARTEMIS_LATE_S: Final = 10.0  # until what runs often is machine code
_ARTEMIS: Final = """\
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>{name}</name>
    <security-enabled>false</security-enabled>
    <journal-type>NIO</journal-type>
    <paging-directory>{folder}/paging</paging-directory>
    <bindings-directory>{folder}/bindings</bindings-directory>
    <journal-directory>{folder}/journal</journal-directory>
    <large-messages-directory>{folder}/large</large-messages-directory>
    <ha-policy><replication>{policy}</replication></ha-policy>
    <connectors>
      <connector name="self">tcp://127.0.0.1:{port}</connector>
      <connector name="other">tcp://127.0.0.1:{other}</connector>
    </connectors>
    <acceptors>
      <acceptor name="core">tcp://127.0.0.1:{port}?protocols=CORE</acceptor>
      <acceptor name="mqtt">tcp://127.0.0.1:{mqtt}?protocols=MQTT</acceptor>
    </acceptors>
    <cluster-user>bench</cluster-user>
    <cluster-password>bench</cluster-password>
    <cluster-connections>
      <cluster-connection name="pair">
        <connector-ref>self</connector-ref>
        <static-connectors><connector-ref>other</connector-ref></static-connectors>
      </cluster-connection>
    </cluster-connections>
  </core>
</configuration>
"""
_ARTEMIS_BOOTSTRAP: Final = """<broker xmlns="http://activemq.apache.org/schema">
  <jaas-security domain="activemq"/>
  <server configuration="file:{folder}/broker.xml"/>
</broker>
"""
_ARTEMIS_MANAGEMENT: Final = '<management-context xmlns="http://activemq.apache.org/schema"/>'
_ARTEMIS_ROLES: Final = {"primary": "<primary/>", "backup": "<backup/>"}


def nats_server() -> str | None:
    """Return the path of the NATS server: that of the extra `cluster`, or the system's."""
    beside = Path(sys.executable).with_name("nats-server")
    return str(beside) if beside.exists() else found("nats-server")


def _nats_servers(program: str, folder: Path, ports: list[int], mqtt: list[int]) -> list[list[str]]:
    """Return the commands of three servers; `mqtt` has their ports for MQTT, or none."""
    routes = free_ports(3)
    urls = ", ".join(f'"nats://127.0.0.1:{route}"' for route in routes)
    commands = []
    for place, name in enumerate(NAMES):
        listener = (
            f'mqtt {{ listen: "127.0.0.1:{mqtt[place]}", stream_replicas: 3, max_ack_pending: {_IN_FLIGHT_MAX // 2} }}'
            if mqtt
            else ""
        )
        file = folder / f"nats-{name}.conf"
        settings = {"name": name, "port": ports[place], "route": routes[place], "routes": urls, "mqtt": listener}
        file.write_text(_NATS.format(folder=folder / f"nats-{name}", **settings))
        commands.append([program, "-c", str(file)])
    return commands


def _together(lines: list[list[str] | str]) -> list[str]:
    """Return a command that begins each of several, and does what the shell is to do between them."""
    script = [line if isinstance(line, str) else f"{shlex.join(line)} &" for line in lines]
    return ["sh", "-c", "\n".join([*script, "wait"])]


@final
class SluicegateReplicated(Sluicegate):
    """Sluicegate with three replicas, over three NATS servers."""

    kind = "sluicegate-replicated"

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has NATS servers."""
        return nats_server() is not None

    def _command(self) -> list[str]:
        serve = super()._command()
        server = nats_server()
        assert server is not None, "it is installed"
        ports = free_ports(9)
        servers = _nats_servers(server, self.directory, ports[:3], [])
        urls = "[" + ", ".join(f"nats://127.0.0.1:{port}" for port in ports[:3]) + "]"
        cluster = {
            "cluster.servers": urls,
            "cluster.replicas": f"[{', '.join(NAMES)}]",
            "cluster.log_bytes_max": _LOG_BYTES,
        }
        options = [part for path, value in cluster.items() for part in ("--set", f"{path}={value}")]
        owner = [*serve, *options, "--set", "cluster.replica=a"]
        standbys = []
        self._standbys: Addresses = {}
        for place, name in enumerate(NAMES[1:]):
            admin = ports[3 + place]
            self._standbys[name] = ("127.0.0.1", admin)
            data = ["--data", str(self.directory / name), "--set", f"admin.port={admin}"]
            named = ["--set", f"cluster.replica={name}", "--set", f"node.name={self.name}"]
            standbys.append([*serve[: serve.index("--data")], *data, *options, *named])
        until_owned = f"until curl -sf {shlex.quote(self._health())} >/dev/null; do sleep 0.1; done"
        return _together([*servers, owner, until_owned, *standbys])

    def _health(self) -> str:
        host, port = self._admin["admin"]
        return f"http://{host}:{port}/health/active"

    def _started_at(self) -> Addresses | None:
        return super()._started_at() if accept_connections(self._standbys) else None


@final
class NatsReplicated(Broker):
    """Three NATS servers, whose MQTT keeps messages in streams with three replicas."""

    kind = "nats-replicated"

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has NATS servers."""
        return nats_server() is not None

    def _command(self) -> list[str]:
        server = nats_server()
        assert server is not None, "it is installed"
        ports, mqtt = free_ports(3), free_ports(3)
        self._ports: Addresses = {MQTT: ("127.0.0.1", mqtt[0])}
        return _together([*_nats_servers(server, self.directory, ports, mqtt)])

    def _started_at(self) -> Addresses | None:
        """Return the addresses once a session can be made: its streams need all servers."""
        if "JetStream cluster new metadata leader" not in self._log.read_text(errors="replace"):
            return None
        try:
            open_session(self._ports[MQTT], wire.connect("probe", version=wire.MQTT_3_1_1)).close()
        except OSError:
            return None
        return self._ports


@final
class RabbitMqReplicated(Broker):
    """Three nodes of RabbitMQ 3 with quorum queues."""

    kind = "rabbitmq-replicated"

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has the broker."""
        return Path(_RABBITMQ_SERVER).exists()

    def _command(self) -> list[str]:
        (mapper,) = free_ports(1)
        self._ports: Addresses = {}
        lines: list[list[str] | str] = [["epmd", "-port", str(mapper)]]
        for name in NAMES:
            amqp, mqtt, node = free_ports(3)
            self._ports.setdefault(MQTT, ("127.0.0.1", mqtt))
            folder = self.directory / name
            folder.mkdir(exist_ok=True)
            (folder / "plugins").write_text("[rabbitmq_mqtt].")
            (folder / "rabbitmq.conf").write_text(_RABBITMQ.format(amqp=amqp, mqtt=mqtt, in_flight=_IN_FLIGHT_MAX))
            settings = {
                "HOME": self.directory,  # of the cookie that the nodes know each other by
                "RABBITMQ_NODENAME": f"{name}@localhost",
                "RABBITMQ_MNESIA_BASE": folder / "mnesia",
                "RABBITMQ_LOG_BASE": folder / "logs",
                "ERL_CRASH_DUMP": folder / "erl_crash.dump",
                "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "plugins",
                "RABBITMQ_CONFIG_FILE": folder / "rabbitmq.conf",
                "RABBITMQ_CONF_ENV_FILE": "/dev/null",
                "RABBITMQ_DIST_PORT": node,
                "ERL_EPMD_PORT": mapper,
                "ERL_EPMD_ADDRESS": "127.0.0.1",
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            }
            command = ["env", *(f"{key}={value}" for key, value in settings.items()), _RABBITMQ_SERVER]
            lines += [command, "sleep 3"]  # the first one makes the cookie
        return _together(lines)

    def _started_at(self) -> Addresses | None:
        return self._ports if self._log.read_text(errors="replace").count("completed with") == len(NAMES) else None


@final
class ArtemisReplicated(Broker):
    """ActiveMQ Artemis: a primary whose journal a backup gets."""

    kind = "artemis-replicated"

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has Java and the libraries."""
        return found("java") is not None and bool([*_ARTEMIS_JARS.glob("artemis-cli-*.jar")])

    def prepare(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan with a longer warm-up."""
        return replace(plan, warm_up_s=_ARTEMIS_LATE_S)

    def _command(self) -> list[str]:
        ports, mqtt = free_ports(2), free_ports(2)
        self._ports: Addresses = {MQTT: ("127.0.0.1", mqtt[0])}
        commands: list[list[str] | str] = []
        for place, (name, policy) in enumerate(_ARTEMIS_ROLES.items()):
            folder = self.directory / name
            folder.mkdir(exist_ok=True)
            places = {"port": ports[place], "other": ports[1 - place], "mqtt": mqtt[place]}
            (folder / "broker.xml").write_text(_ARTEMIS.format(name=name, folder=folder, policy=policy, **places))
            (folder / "bootstrap.xml").write_text(_ARTEMIS_BOOTSTRAP.format(folder=folder))
            (folder / "management.xml").write_text(_ARTEMIS_MANAGEMENT)
            properties = {
                "artemis.home": folder,
                "artemis.instance": folder,
                "artemis.instance.etc": folder,
                "org.slf4j.simpleLogger.log.org.apache.activemq.audit": "off",
            }
            commands.append(
                [
                    found("java") or "java",
                    "-Xmx2g",
                    *("-cp", f"{_ARTEMIS_JARS}/*"),
                    *(f"-D{key}={value}" for key, value in properties.items()),
                    *("org.apache.activemq.artemis.cli.Artemis", "run", f"xml:{folder}/bootstrap.xml"),
                ]
            )
        return _together(commands)

    def _started_at(self) -> Addresses | None:
        return self._ports if "is synchronized with primary" in self._log.read_text(errors="replace") else None
