"""What the brokers of one machine are called, where their data are, and the configuration of each."""

import os
from pathlib import Path

import pytest

from sluicegate.gateway.config.load import load
from sluicegate.gateway.process.brokers import (
    broker_folder,
    broker_names,
    brokers_in,
    config_of_broker,
    count_of,
    divided,
    processors,
    remove_folder,
    total_count,
)

DATA = Path("data")


def test_the_first_broker_has_the_name_and_the_data_folder_of_a_single_one() -> None:
    assert broker_names("edge", 3) == ("edge", "edge-2", "edge-3")
    assert [broker_folder(DATA, number) for number in (1, 2, 3)] == [DATA, DATA / "brokers/2", DATA / "brokers/3"]


def test_a_data_folder_shows_how_many_brokers_have_used_it(tmp_path: Path) -> None:
    assert brokers_in(tmp_path / "new") == (1,)
    assert brokers_in(tmp_path) == (1,)
    for number in (2, 3):
        broker_folder(tmp_path, number).mkdir(parents=True)
    (tmp_path / "brokers" / "notes").mkdir()
    assert brokers_in(tmp_path) == (1, 2, 3)


def test_auto_is_one_broker_for_each_processor_that_the_process_may_use() -> None:
    assert count_of("auto") == processors()
    assert count_of(3) == 3


@pytest.mark.parametrize(
    ("limit", "count"),
    [("max 100000", 64), ("150000 100000", 2), ("50000 100000", 1), ("6400000 50000", 64), ("?", 64)],
)
def test_a_container_or_service_may_use_as_many_processors_as_its_limit_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, count: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    (tmp_path / "membership").write_text("1:cpu:/\n0::/system.slice/gate.service\n")
    assert processors(tmp_path, tmp_path / "membership") == 64
    (tmp_path / "system.slice" / "gate.service").mkdir(parents=True)
    (tmp_path / "system.slice" / "gate.service" / "cpu.max").write_text(limit + "\n")
    assert processors(tmp_path, tmp_path / "membership") == count


def test_a_broker_has_its_own_name_and_folder_the_picked_ports_and_none_for_operators() -> None:
    settings = ["brokers=2", "node.name=edge", "listeners.mqtt.port=0", "health.enabled=true", "data.path=data"]
    config = config_of_broker(load(None, environment={}, settings=settings), 2, 2, {"mqtt": 4711})
    assert (config.brokers, config.node.name, config.data.path) == (None, "edge-2", DATA / "brokers/2")
    assert (config.listeners.mqtt.port, config.listeners.amqp.port) == (4711, 5672)
    assert [config.admin.enabled, config.admin.tls.enabled, config.health.enabled] == [False] * 3
    assert config.node.is_named()


def test_brokers_that_have_data_run_though_fewer_are_asked_for(tmp_path: Path) -> None:
    assert total_count(tmp_path, 1) == 1
    broker_folder(tmp_path, 3).mkdir(parents=True)
    assert [total_count(tmp_path, count) for count in (1, 3, 4)] == [3, 3, 4]


def test_the_folder_of_a_retired_broker_goes_as_a_whole(tmp_path: Path) -> None:
    for number in (2, 3):
        broker_folder(tmp_path, number).mkdir(parents=True)
        (broker_folder(tmp_path, number) / "log").write_bytes(b"1")
    remove_folder(tmp_path, 3)
    assert [path.name for path in (tmp_path / "brokers").iterdir()] == ["2"]
    remove_folder(tmp_path, 2)
    assert list(tmp_path.iterdir()) == []


def test_a_removal_that_was_interrupted_is_finished_by_the_next_start(tmp_path: Path) -> None:
    broker_folder(tmp_path, 2).mkdir(parents=True)
    interrupted = tmp_path / "brokers" / "3.removed"
    interrupted.mkdir()
    (interrupted / "log").write_bytes(b"1")
    assert total_count(tmp_path, 1) == 2
    assert not interrupted.exists()


def test_a_retired_broker_runs_no_bridges() -> None:
    settings = ["node.name=edge", "bridges.0.name=b", "data.path=data"]
    settings += ["bridges.0.remote_url=mqtt://broker.example", "bridges.0.incoming.0.remote_topic=t/#"]
    config = config_of_broker(load(None, environment={}, settings=settings), 3, 2, {"mqtt": 4711})
    assert (config.node.name, config.data.path, config.bridges) == ("edge-3", Path("data/brokers/3"), ())


def test_each_bridge_and_delivery_point_of_the_configuration_runs_at_one_broker() -> None:
    settings = ["node.name=edge", "vpns.sales.enabled=true"]
    for number in range(8):
        for section in ("", "vpns.sales."):
            settings += [
                f"{section}bridges.{number}.name=b{number}",
                f"{section}bridges.{number}.remote_url=mqtt://broker.example",
                f"{section}bridges.{number}.incoming.0.remote_topic=t{number}/#",
                f"{section}rest_delivery_points.{number}.name=r{number}",
            ]
    whole = load(None, environment={}, settings=settings)
    parts = [config_of_broker(whole, number, 3, {}) for number in (1, 2, 3)]
    for kind in ("bridges", "rest_delivery_points"):
        names = sorted([each.name for each in getattr(whole, kind)])
        assert sorted([each.name for part in parts for each in getattr(part, kind)]) == names
        assert sorted([each.name for part in parts for each in getattr(part.vpns["sales"], kind)]) == names
        assert all(getattr(part, kind) for part in parts), "eight names are spread over three brokers"


def test_memory_of_the_node_is_divided_among_its_brokers_and_what_they_store_is_not() -> None:
    config = load(None, environment={}, settings=["brokers=4"])
    own = divided(config, 4)
    assert own.spool.memory_bytes_max * 4 == config.spool.memory_bytes_max
    assert own.backpressure.unfinished_bytes_max * 4 == config.backpressure.unfinished_bytes_max
    assert own.limits.login_memory_bytes_max * 4 == config.limits.login_memory_bytes_max
    assert own.limits.delivered_unacked_max * 4 == config.limits.delivered_unacked_max
    assert own.spool.usage_bytes_max == config.spool.usage_bytes_max
    assert own.limits.messages_max == config.limits.messages_max
    tiny = divided(load(None, environment={}, settings=["spool.memory_bytes_max=1 MiB"]), 64)
    assert (tiny.spool.memory_bytes_max, tiny.amqp.max_open_transactions_size) == (1 << 20, 32 << 20)
