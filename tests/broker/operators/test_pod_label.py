"""The label of a replica's pod, over TLS to a server that takes it as the API server of Kubernetes does."""

import ssl
from pathlib import Path

import orjson
import pytest

from sluicegate.gateway.cluster.replica.pod_label import Pod, PodLabel, own_pod
from sluicegate.gateway.views.errors import CannotStart
from support.http.web_server import Pushed, WebServer
from support.network.certificates import make_certificates


@pytest.fixture
def account(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """The folder of a service account, and what the API server shows."""
    certificates = make_certificates(tmp_path)
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "ca.crt").write_bytes(certificates.authority.read_bytes())
    (folder / "token").write_text("a-token\n")
    (folder / "namespace").write_text("messaging")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)
    return folder, context


async def test_the_label_says_whether_the_replica_owns_the_broker(account: tuple[Path, ssl.SSLContext]) -> None:
    folder, tls = account
    async with WebServer(tls=tls) as server:
        pod = own_pod(
            {
                "POD_NAME": "sluicegate-1",
                "KUBERNETES_SERVICE_HOST": "localhost",
                "KUBERNETES_SERVICE_PORT": str(server.port),
            },
            folder,
        )
        label = PodLabel(pod, "sluicegate.active")
        label.follow(is_owner=True)
        (told,) = await server.has(1)
        assert (told.method, told.path) == ("PATCH", "/api/v1/namespaces/messaging/pods/sluicegate-1")
        assert told.headers["authorization"] == "Bearer a-token"
        assert told.headers["content-type"] == "application/merge-patch+json"
        assert orjson.loads(told.body) == {"metadata": {"labels": {"sluicegate.active": "true"}}}
        label.follow(is_owner=False)
        told = (await server.has(2))[1]
        assert orjson.loads(told.body) == {"metadata": {"labels": {"sluicegate.active": "false"}}}


async def test_a_label_that_is_refused_is_tried_again_and_reported_once(
    account: tuple[Path, ssl.SSLContext], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.gateway.cluster.replica.pod_label.AGAIN_S", 0.01)
    folder, tls = account
    answers = [403, 403, 200]

    def status(_: Pushed) -> int:
        return answers.pop(0)

    async with WebServer(status, tls=tls) as server:
        PodLabel(Pod("a-0", "messaging", "localhost", server.port, folder), "sluicegate.active").follow(is_owner=True)
        await server.has(3)
    said = [record.getMessage() for record in caplog.records if "cannot be changed" in record.getMessage()]
    assert said == ["the label sluicegate.active of pod a-0 cannot be changed: the API server answers 403: ok"]


def test_outside_of_a_pod_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="there is no token of a service account"):
        own_pod({"HOSTNAME": "laptop"}, tmp_path)
