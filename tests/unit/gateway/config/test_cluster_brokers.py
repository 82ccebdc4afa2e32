"""The configuration of one broker of a machine that runs replicas of several."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from sluicegate.gateway.cli.terminal.failures import USAGE
from sluicegate.gateway.cluster.several.serve import check_ports
from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.cluster import Cluster
from sluicegate.gateway.views.errors import CannotStart
from support.operations.shell import Shell

TEXT = """
cluster:
  servers: [nats://127.0.0.1]
  replica: m1
  brokers:
    orders: {replicas: [m1, m2]}
    stock:
      replicas: [m2, m1]
      port_offset: 10
      settings:
        limits: {messages_max: 7}
        listeners:
          mqtt: {host: 127.0.0.1}
        queues:
          declared:
            - {name: parts}
data: {path: /data}
log: {audit_file: /var/log/audit.log}
limits: {messages_max: 5, queue_messages_max: 4}
links:
  orders: {}
  stock: {}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(TEXT.replace("/var/log", str(tmp_path)))
    return file


def test_a_broker_has_its_name_its_replicas_its_folders_and_its_ports(file: Path, tmp_path: Path) -> None:
    stock = load(file, settings=["cluster.broker=stock"])
    assert stock.node.name == "stock"
    assert stock.cluster.replicas == ("m2", "m1")
    assert stock.data.path == Path("/data/stock")
    assert stock.log.audit_file == tmp_path / "audit-stock.log"
    assert stock.listeners.mqtt.port == Config().listeners.mqtt.port + 10
    assert stock.admin.port == Config().admin.port + 10
    assert set(stock.links) == {"orders"}
    assert not stock.cluster.runs_several


def test_settings_of_a_broker_count_before_those_that_all_share(file: Path) -> None:
    orders, stock = (load(file, settings=[f"cluster.broker={name}"]) for name in ("orders", "stock"))
    assert (orders.limits.messages_max, stock.limits.messages_max) == (5, 7)
    assert (orders.limits.queue_messages_max, stock.limits.queue_messages_max) == (4, 4)
    assert [len(each.queues.declared) for each in (orders, stock)] == [0, 1]
    assert stock.listeners.mqtt.host == "127.0.0.1"


def test_settings_of_a_broker_count_behind_the_environment_and_the_command_line(file: Path) -> None:
    environment = {"SLUICEGATE_CLUSTER__BROKER": "stock", "SLUICEGATE_LIMITS__MESSAGES_MAX": "8"}
    assert load(file, environment=environment).limits.messages_max == 8
    assert load(file, environment=environment, settings=["limits.messages_max=9"]).limits.messages_max == 9


def test_a_wrong_setting_of_a_broker_is_told_with_its_line(file: Path) -> None:
    file.write_text(file.read_text().replace("messages_max: 7", "messages_max: -7"))
    line = next(number for number, text in enumerate(file.read_text().splitlines(), 1) if "-7" in text)
    with pytest.raises(ConfigError, match=rf"config\.yaml:{line}:\d+: limits\.messages_max"):
        load(file, settings=["cluster.broker=stock"])


def test_settings_of_brokers_are_checked_and_not_shown(file: Path) -> None:
    nobody = Shell("http://127.0.0.1:1")
    said = nobody.run("check-config", "--config", str(file))
    assert "cluster.brokers.stock.settings = {limits, listeners, queues}" in said
    assert "parts" not in nobody.run("check-config", "--config", str(file), "--json")
    file.write_text(file.read_text().replace("messages_max: 7", "messages_max: -7"))
    assert "limits.messages_max" in nobody.run("check-config", "--config", str(file), expect=USAGE)


def test_without_a_broker_the_process_runs_all(file: Path) -> None:
    assert load(file).cluster.runs_several


def test_a_port_that_there_is_not_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.brokers\.stock\.port_offset: port .* ports are 1 to 65535"):
        load(file, settings=["cluster.broker=stock", "cluster.brokers.stock.port_offset=60000"])


def test_two_brokers_do_not_share_a_port(file: Path) -> None:
    def brokers(*settings: str) -> dict[str, Config]:
        return {name: load(file, settings=[f"cluster.broker={name}", *settings]) for name in ("orders", "stock")}

    check_ports(brokers("cluster.brokers.stock.port_offset=100"))
    with pytest.raises(CannotStart, match=r"of broker stock and .* of broker orders both want"):
        check_ports(brokers("cluster.brokers.stock.port_offset=0"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"broker": "bills"}, "broker is 'bills'; allowed: one of brokers, which are: orders"),
        ({"replicas": ["a"]}, "replicas: each of brokers has its own"),
        ({"servers": []}, "brokers need servers"),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, object], said: str) -> None:
    known = {"servers": ["nats://127.0.0.1"], "replica": "m1", "brokers": {"orders": {"replicas": ["m1"]}}}
    with pytest.raises(ValidationError, match=said):
        Cluster.model_validate({**known, **given})


def test_brokers_have_the_names_of_their_keys(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"node\.name is not given"):
        load(file, settings=["node.name=orders"])
