"""Foreign HTTP publishers: curl, fetch as browsers have it, httpx; and a gateway killed under one."""

import re
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest

from support.http.plain import HTTP, plain_client
from support.network.certificates import Certificates
from support.pages.listings import Typed, steps
from support.processes.foreign_programs import program
from support.processes.gateway import GatewayProcess, gateway

ANSWER_S = 30
FETCH = """
const send = async (path, options) => (await fetch(process.argv[1] + path, {method: 'POST', ...options})).status;
const headers = {'Content-Type': 'application/json', 'Sluicegate-Partition-Key': 'k'};
Promise.all([
    send('/QUEUE/fetched', {body: JSON.stringify({n: 1}), headers}),
    send('/QUEUE/fetched', {body: new Uint8Array([0, 255])}),
    send('/QUEUE/nowhere', {body: 'x'}),
]).then((statuses) => console.log(statuses.join(' ')));
"""

pytestmark = [pytest.mark.interop]


def output_of(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_curl(node: GatewayProcess, certificates: Certificates, tmp_path: Path) -> None:
    """As docs/connect/http.md shows; a file from disk, which curl announces with Expect: 100-continue; over TLS."""
    node.create_queue("curled")
    file = tmp_path / "large"
    file.write_bytes(bytes(3_000_000))
    status = ["-s", "-o", "/dev/null", "-w", "%{http_code}"]
    curl = program("curl")
    assert output_of(curl, *status, "-d", "hello", f"{node.http_url}/QUEUE/curled") == "200"
    assert output_of(curl, *status, "--data-binary", f"@{file}", f"{node.http_url}/QUEUE/curled") == "200"
    secure = f"https://localhost:{node.ports['http_tls']}/QUEUE/curled"
    assert output_of(curl, *status, "--cacert", str(certificates.authority), "-d", "hello", secure) == "200"
    assert node.held_count("curled") == 3


def test_fetch(node: GatewayProcess) -> None:
    """The same function as in browsers."""
    node.create_queue("fetched")
    assert output_of(program("node"), "-e", FETCH, node.http_url).split() == ["200", "200", "400"]
    assert node.held_count("fetched") == 2


def test_a_certificate_says_who_publishes(tmp_path: Path, certificates: Certificates) -> None:
    """The common name is the user; nobody has to send a password, and nobody comes without a certificate."""
    password = tmp_path / "password"
    password.write_text("secret")
    accounts = tmp_path / "gateway.yaml"
    accounts.write_text(
        f"authentication:\n  allow_anonymous: false\n  users:\n    - name: device-7\n      password_file: {password}\n"
    )
    settings: dict[str, object] = {
        "listeners.http_tls.enabled": True,
        "listeners.http_tls.certificate": certificates.server,
        "listeners.http_tls.key": certificates.server_key,
        "listeners.http_tls.client_ca": certificates.authority,
    }
    with GatewayProcess(tmp_path / "node", settings, config_file=accounts) as node:
        url = f"https://localhost:{node.ports['http_tls']}/TOPIC/a"
        stranger = ssl.create_default_context(cafile=str(certificates.authority))
        with pytest.raises(httpx.TransportError):
            httpx.post(url, verify=stranger, trust_env=False, timeout=ANSWER_S)
        known = ssl.create_default_context(cafile=str(certificates.authority))
        known.load_cert_chain(certificates.client, certificates.client_key)
        assert httpx.post(url, verify=known, trust_env=False, timeout=ANSWER_S).status_code == 200
        assert HTTP.post(f"{node.http_url}/TOPIC/a", timeout=ANSWER_S).status_code == 401


@pytest.mark.crash
def test_confirmed_messages_survive_a_kill(tmp_path: Path) -> None:
    """200 says that the message is safe."""
    with gateway(tmp_path) as node:
        node.create_queue("kept")
        confirmed = 0
        for round_number in range(3):
            with plain_client(node.http_url, timeout=ANSWER_S) as client:
                for number in range(20):
                    answer = client.post("/QUEUE/kept", content=f"{round_number}/{number}")
                    assert answer.status_code == 200
                    confirmed += 1
            node.kill9()
            node.start()
            assert node.held_count("kept") == confirmed


def test_the_examples_of_the_page_work(node: GatewayProcess, tmp_path: Path) -> None:
    """docs/connect/http.md, Consuming: with curl, and a shell that stops at the first mistake."""
    page = (Path(__file__).parents[2] / "docs" / "connect" / "http.md").read_text()
    typed = (step for step in steps(page.partition("\n## Consuming")[2]) if isinstance(step, Typed))
    examples = "".join(step.commands for step in typed if not step.terminal)  # without those that do not end
    assert "settle=" in examples
    node.create_queue("orders")
    script = "set -eu\n" + re.sub(r"\bcurl\b", "curl -fsS", examples.replace("http://127.0.0.1:9000", node.http_url))
    done = subprocess.run(["sh"], input=script, cwd=tmp_path, capture_output=True, text=True, timeout=ANSWER_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "order").read_text() == "hello"
    assert len((tmp_path / "lines").read_text().splitlines()) == 2
    assert node.held_count("orders") == 0
