"""The section of a broker with replicas."""

import pytest
from pydantic import ValidationError

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.cluster import Cluster, Replication
from sluicegate.gateway.config.sections.node import Node

SERVERS = ("nats://one:4222", "nats://two:4222", "nats://three")


def test_without_servers_there_are_no_replicas() -> None:
    assert not Cluster().enabled
    assert not Config().cluster.enabled


def test_a_replica_has_a_name_and_need_not_be_one_of_those_that_a_new_broker_has() -> None:
    assert Cluster(servers=SERVERS, replica="b", replicas=("a", "b")).enabled
    assert Cluster(servers=SERVERS, replica="added", replicas=("a", "b")).enabled
    assert Cluster(servers=SERVERS, replica="added").enabled
    with pytest.raises(ValidationError, match="replica is missing"):
        Cluster(servers=SERVERS, replicas=("a", "b"))
    with pytest.raises(ValidationError, match="String should match pattern"):
        Cluster(servers=SERVERS, replica="a b")
    with pytest.raises(ValidationError, match="a name is there twice"):
        Cluster(servers=SERVERS, replica="a", replicas=("a", "a"))


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("one:4222", "is no NATS server: nats://HOST"),
        ("http://one", "is no NATS server"),
        ("nats://ada:secret@one", "has no user name and password: see username and password_file"),
        ("nats://one:port", "Port could not be cast"),
    ],
)
def test_a_server_is_an_address(server: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Cluster(servers=(server,), replica="a", replicas=("a",))


def test_a_majority_decides() -> None:
    with pytest.raises(ValidationError, match="copies is 4; allowed: 3 or 5"):
        Cluster(servers=SERVERS, replica="a", replicas=("a",), copies=4)


def test_the_broker_has_a_name_of_its_own_and_one_process() -> None:
    cluster = Cluster(servers=SERVERS, replica="a", replicas=("a",))
    assert Config(node=Node(name="orders"), cluster=cluster).cluster is cluster
    with pytest.raises(ValidationError, match=r"node\.name is missing"):
        Config(cluster=cluster)
    with pytest.raises(ValidationError, match="cluster and brokers do not go together"):
        Config(node=Node(name="orders"), cluster=cluster, brokers=2)


def test_a_second_site_has_another_name_and_servers_of_its_own() -> None:
    assert not Cluster().replication.enabled
    assert Replication(site="paris", mate="london", mate_servers=SERVERS).enabled
    with pytest.raises(ValidationError, match="site is given, and mate is missing"):
        Replication(site="paris")
    with pytest.raises(ValidationError, match="site, mate and mate_servers go together"):
        Replication(site="paris", mate="london")
    with pytest.raises(ValidationError, match="site and mate are both 'paris'"):
        Replication(site="paris", mate="paris", mate_servers=SERVERS)
