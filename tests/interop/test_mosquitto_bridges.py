"""mosquitto as a broker that is bridged to the gateway."""

import subprocess
from pathlib import Path

import pytest

from support.processes.foreign_programs import program
from support.processes.gateway import GatewayProcess, wait_until
from support.processes.programs import running

ANSWER_S = 30

pytestmark = [pytest.mark.interop]

CONFIGURATION = """
user root
log_dest none
listener 0 {socket}
allow_anonymous true
connection {topic}
address 127.0.0.1:{port}
bridge_protocol_version {version}
try_private false
topic {topic}/down in 1
topic {topic}/up out 1
{settings}
"""


def client(name: str, socket: Path, topic: str, *options: str) -> str:
    """Run mosquitto_pub or mosquitto_sub at the site's broker; return what it prints."""
    command = [program(name), "--unix", str(socket), "-t", topic, "-q", "1", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=True).stdout


# A bridge tells of itself on a topic below $SYS, by a will too, which 5.0 is refused.
@pytest.mark.parametrize(
    ("version", "settings"), [("mqttv31", ""), ("mqttv311", ""), ("mqttv50", "notifications_local_only true")]
)
def test_messages_cross_a_bridge_in_both_directions(
    node: GatewayProcess, topic: str, tmp_path: Path, version: str, settings: str
) -> None:
    socket, configuration = tmp_path / "site", tmp_path / "mosquitto.conf"
    configuration.write_text(
        CONFIGURATION.format(socket=socket, topic=topic, port=node.mqtt_port, version=version, settings=settings)
    )
    at_gateway = ["-h", "127.0.0.1", "-p", str(node.mqtt_port), "-q", "1"]
    published = [program("mosquitto_pub"), *at_gateway, "-t", f"{topic}/down", "-m", "from the gateway", "-r"]
    subprocess.run(published, timeout=ANSWER_S, check=True)
    with running([program("mosquitto"), "-c", configuration]):
        wait_until(lambda: f"{topic}/down" in node.leads_to(f"{topic}/down"), within_s=ANSWER_S, what="the bridge")
        down = client("mosquitto_sub", socket, f"{topic}/down", "-C", "1", "-W", str(ANSWER_S))
        assert down == "from the gateway\n"
        subscribed = [program("mosquitto_sub"), *at_gateway, "-t", f"{topic}/up", "-C", "1", "-W", str(ANSWER_S)]
        with running(subscribed) as subscriber:
            wait_until(lambda: bool(node.leads_to(f"{topic}/up")), within_s=ANSWER_S, what="the subscription")
            client("mosquitto_pub", socket, f"{topic}/up", "-m", "from the site")
            assert subscriber.communicate(timeout=ANSWER_S) == ("from the site\n", "")
