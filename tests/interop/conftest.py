"""One gateway for all foreign clients of a module, with every listener open."""

from collections.abc import Iterator

import pytest

from support.network.certificates import Certificates, make_certificates
from support.processes.gateway import GatewayProcess


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[GatewayProcess]:
    settings: dict[str, object] = {"node.name": "here", "listeners.amqp_websocket.enabled": True}
    for name in ("mqtt_tls", "mqtt_websocket_tls", "amqp_tls", "http_tls"):
        settings[f"listeners.{name}.enabled"] = True
        settings[f"listeners.{name}.certificate"] = certificates.server
        settings[f"listeners.{name}.key"] = certificates.server_key
    with GatewayProcess(tmp_path_factory.mktemp("node"), settings) as process:
        process.create_queue("devices", subscriptions=["devices/>"])
        yield process


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of this test alone: the gateway is shared."""
    name: str = request.node.name
    return "t/" + "".join(each if each.isalnum() else "-" for each in name)
