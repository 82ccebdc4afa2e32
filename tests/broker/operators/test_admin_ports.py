"""The admin ports: TLS beside plain HTTP or alone, new certificates, and the order in which ports open."""

import socket
import ssl
from pathlib import Path

import httpx
import pytest

from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.views.errors import CannotStart
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S
from support.network.certificates import Certificates, make_certificates
from support.network.event_loops import RunOnLoop

PASSWORD = "correct-horse"
TLS_FAILED = "SYSTEM_AUTHENTICATION_SESSION_TLS_START_FAIL"


def settings(folder: Path, certificates: Certificates, *, level: str = "read-only", **more: object) -> tuple[str, ...]:
    """Return the settings of an admin port in TLS, with an account."""
    password = folder / "ada.operator"
    password.write_text(PASSWORD)
    values = {"enabled": "true", "port": 0, "certificate": certificates.server, "key": certificates.server_key, **more}
    account = f"{{name: ada, password_file: {password}, global_access_level: {level}}}"
    return (*[f"admin.tls.{key}={value}" for key, value in values.items()], f"admin.users=[{account}]")


def trusting(certificates: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificates.authority))


def client(broker: RunningBroker, context: ssl.SSLContext, password: str = PASSWORD) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=f"https://127.0.0.1:{broker.operator_ports.ports.servers['admin.tls'].port}",
        auth=httpx.BasicAuth("ada", password),
        timeout=DEADLINE_S,
        trust_env=False,
        verify=context,
    )


async def test_operators_sign_in_over_tls(tmp_path: Path) -> None:
    """docs/operate/settings.md, admin: the same operations and accounts; links in answers are of this port."""
    certificates = make_certificates(tmp_path)
    async with RunningBroker(tmp_path / "data", settings(tmp_path, certificates)) as broker:
        assert "admin" not in broker.operator_ports.ports.servers
        assert ("admin.tls", broker.operator_ports.ports.servers["admin.tls"].url) in broker.node.endpoints()
        async with client(broker, trusting(certificates)) as operator:
            assert (await operator.get("/queues")).status_code == 200
            about = (await operator.get("/SEMP/v2/monitor/msgVpns")).json()
            assert about["meta"]["request"]["uri"].startswith(broker.operator_ports.ports.servers["admin.tls"].url)
        async with client(broker, trusting(certificates), "a guess") as stranger:
            assert (await stranger.get("/queues")).status_code == 401


async def test_a_redrive_is_the_same_one_at_all_ports(tmp_path: Path) -> None:
    """Who comes over TLS sees and ends what was begun at the plain port, and begins no second one beside it."""
    certificates = make_certificates(tmp_path)
    ports = (*settings(tmp_path, certificates, level="admin"), "admin.enabled=true", "admin.port=0")
    async with RunningBroker(tmp_path / "data", ports) as broker:
        await create(broker, "dead")
        plain_url = broker.operator_ports.ports.servers["admin"].url
        basic = httpx.BasicAuth("ada", PASSWORD)
        async with (
            client(broker, trusting(certificates)) as over_tls,
            httpx.AsyncClient(base_url=plain_url, auth=basic, timeout=DEADLINE_S, trust_env=False) as plain,
        ):
            begun = await plain.post("/queues/dead/redrive", json={"rate": 1})
            assert begun.status_code == 202
            assert (await over_tls.get("/queues/dead/redrive")).json() == (
                await plain.get("/queues/dead/redrive")
            ).json()


async def test_a_certificate_that_is_replaced_is_shown_to_the_next_client(tmp_path: Path) -> None:
    """Who trusts the new authority only is served after its files have changed; nobody has to say so."""
    certificates = make_certificates(tmp_path)
    (tmp_path / "new").mkdir()
    later = make_certificates(tmp_path / "new")
    async with (
        RunningBroker(tmp_path / "data", settings(tmp_path, certificates)) as broker,
        client(broker, trusting(later)) as operator,
    ):
        with pytest.raises(httpx.ConnectError):
            await operator.get("/queues")
        later.server_key.replace(certificates.server_key)
        later.server.replace(certificates.server)
        broker.node.watched_files.look()
        assert (await operator.get("/queues")).status_code == 200


async def test_an_operator_without_a_certificate_is_refused_where_one_is_required(tmp_path: Path) -> None:
    """`client_ca`: by TLS itself, which is told as an event; who shows one signs in as well."""
    certificates = make_certificates(tmp_path)
    wanted = settings(tmp_path, certificates, client_ca=certificates.authority)
    async with RunningBroker(tmp_path / "data", wanted) as broker:
        async with client(broker, trusting(certificates)) as operator:
            with pytest.raises((ssl.SSLError, httpx.NetworkError, httpx.RemoteProtocolError)):
                await operator.get("/queues")
        assert broker.node.services.runtime.events.record.counts[TLS_FAILED] == 1
        showing = trusting(certificates)
        showing.load_cert_chain(certificates.client, certificates.client_key)
        async with client(broker, showing, "a guess") as operator:
            assert (await operator.get("/queues")).status_code == 401
        async with client(broker, showing) as operator:
            assert (await operator.get("/queues")).status_code == 200


async def test_a_reload_that_fails_at_a_file_has_taken_over_nothing(tmp_path: Path) -> None:
    """And the next one names what differs, which the first did not take over."""
    certificates = make_certificates(tmp_path)
    async with RunningBroker(tmp_path / "data", settings(tmp_path, certificates)) as broker:
        before = broker.node.services.config
        other: Config = load(None, settings=(*broker.settings, "mqtt.receive_maximum=7", "vpns.sales.enabled=true"))
        key = certificates.server_key.read_bytes()
        certificates.server_key.write_text("no key")
        with pytest.raises(ValueError, match=r"server\.key"):
            await broker.node.reload(other)
        assert broker.node.services.config is before
        assert "sales" not in broker.node.vpns
        certificates.server_key.write_bytes(key)
        changes = await broker.node.reload(other)
        assert {each.path for each in changes.reloadable} == {"mqtt.receive_maximum", "vpns.sales"}
        assert "sales" in broker.node.vpns


def test_a_certificate_that_cannot_be_used_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    """`check-config` says so, and a reload, before anything is changed."""
    certificates = make_certificates(tmp_path)
    with pytest.raises(ConfigError, match=r"admin\.tls: .*client\.key"):
        load(None, settings=settings(tmp_path, certificates, key=certificates.client_key))


def test_without_accounts_it_is_for_this_machine_only(tmp_path: Path) -> None:
    """As the plain one."""
    certificates = make_certificates(tmp_path)
    without = [*settings(tmp_path, certificates, host="0.0.0.0")[:-1]]
    with pytest.raises(ConfigError, match=r"admin: 0\.0\.0\.0 can be reached from elsewhere"):
        load(None, settings=without)


def test_no_client_is_accepted_when_the_admin_port_is_taken(run: RunOnLoop, tmp_path: Path) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            settings = ("admin.enabled=true", f"admin.port={taken.getsockname()[1]}", "health.enabled=true")
            broker = RunningBroker(tmp_path / "data", (*settings, "health.port=0"))
            with pytest.raises(CannotStart, match="admin"):
                await broker.start()
            assert not any(server.listeners for server in broker.node.servers)
            await broker.stop()

    run(scenario())


def test_the_admin_port_is_open_when_the_node_is_ready(run: RunOnLoop, tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = RunningBroker(tmp_path / "data", ("admin.enabled=true", "admin.port=0"))
        await broker.start()
        (name, url) = broker.node.endpoints()[-1]
        assert broker.node.ready
        assert (name, url) == ("admin", f"http://127.0.0.1:{broker.operator_ports.ports.servers['admin'].port}")
        await broker.stop()

    run(scenario())
