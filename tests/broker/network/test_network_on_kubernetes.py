"""The network of brokers as deploy/k8s has it: all have the same configuration file, and each the name of its pod."""

from pathlib import Path

import pytest
import yaml

from sluicegate.gateway.config.load import load
from support.broker.linked_brokers import Brokers, until
from support.operations.manifests import BROKERS, NETWORK, configuration, network, settings_of


@pytest.mark.parametrize("name", NETWORK)
async def test_brokers_that_have_the_configuration_of_the_pods_are_one_network(name: str, tmp_path: Path) -> None:
    manifests = network(name)
    (tmp_path / "users").mkdir()
    for user in ("app", "network"):
        (tmp_path / "users" / user).write_text(f"the password of {user}")
    async with Brokers(tmp_path) as brokers:
        text = yaml.safe_dump(configuration(manifests)).replace("/etc/sluicegate", str(tmp_path))
        ways = {pod: await brokers.proxy("service", pod) for pod in BROKERS}
        for pod, way in ways.items():
            text = text.replace(f"{pod}.sluicegate:55555", f"127.0.0.1:{way.port}")
        (tmp_path / "gateway.yaml").write_text(text)
        for pod in BROKERS:
            broker = await brokers.add(pod, start=False)
            ours = [each for each in broker.settings if not each.startswith(("node.", "authentication."))]
            settings = (*ours, "health.enabled=false", *settings_of(manifests, pod))
            broker.config = load(tmp_path / "gateway.yaml", settings=settings)
            await broker.start()
            ways[pod].target_port = broker.flow_port
        await brokers.are_linked(*BROKERS)

        subscriber = await brokers[BROKERS[2]].connect(level=5, user_name="app", password=b"the password of app")
        await subscriber.subscribe("plant/#", qos=1)
        await until(lambda: "plant/#" in brokers[BROKERS[0]].wants(BROKERS[2]))
        publisher = await brokers[BROKERS[0]].connect(level=5, user_name="app", password=b"the password of app")
        assert await publisher.publish("plant/1", b"hello") == 0
        assert (await subscriber.message()).payload == b"hello"
