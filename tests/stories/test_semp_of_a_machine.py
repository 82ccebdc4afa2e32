"""A program that manages Solace brokers over SEMP manages a machine with two brokers as one."""

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest

from support.http.plain import plain_client
from support.processes.machine import MachineProcess

FIRST, SECOND = "sluicegate", "sluicegate-2"
VPN = "/config/msgVpns/default"
QUEUES = ("orders/eu", "orders/us", "returns", "stock")
ANSWER_S = 60

pytestmark = [pytest.mark.slow]


@pytest.fixture
def semp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of the machine's SEMP, whose paths begin after `/SEMP/v2`."""
    with (
        MachineProcess(tmp_path_factory.mktemp("machine"), 2) as machine,
        plain_client(f"{machine.admin_url}/SEMP/v2", timeout=ANSWER_S) as client,
    ):
        yield client


def done(answer: httpx.Response) -> object:
    """Return the data of an answer that is not a refusal."""
    assert answer.status_code == 200, answer.text
    return answer.json().get("data")


def path_of(queue: str) -> str:
    return f"{VPN}/queues/{quote(queue, safe='')}"


def test_queues_of_both_brokers_are_made_listed_changed_and_deleted(semp: httpx.Client) -> None:
    for queue in QUEUES:
        done(semp.post(f"{VPN}/queues", json={"queueName": queue}))
        done(semp.post(f"{path_of(queue)}/subscriptions", json={"subscriptionTopic": f"{queue}/>"}))
    page = semp.get(f"{VPN}/queues", params={"select": "queueName", "count": "3"})
    assert done(page) == [{"queueName": queue} for queue in QUEUES[:3]]
    rest = page.json()["meta"]["paging"]["nextPageUri"]
    assert done(semp.get(rest)) == [{"queueName": QUEUES[3]}]
    homes = done(semp.get("/monitor/msgVpns/default/queues", params={"select": "queueName,brokerName"}))
    assert homes == [
        {"queueName": queue, "brokerName": broker} for queue, broker in zip(QUEUES, (FIRST, SECOND) * 2, strict=True)
    ]
    for queue in QUEUES:
        done(semp.patch(path_of(queue), json={"maxTtl": 7}))
        assert done(semp.get(path_of(queue), params={"select": "maxTtl"})) == {"maxTtl": 7}
        refused = semp.delete(f"{path_of(queue)}/subscriptions/none")
        assert "Could not find match for subscription 'none'" in refused.json()["meta"]["error"]["description"]
        done(semp.delete(path_of(queue)))
    assert done(semp.get(f"{VPN}/queues")) == []


def test_what_all_brokers_have_is_made_and_deleted_at_all(semp: httpx.Client) -> None:
    done(semp.post("/config/msgVpns", json={"msgVpnName": "sales", "enabled": True}))
    sales = "/config/msgVpns/sales"
    done(semp.post(f"{sales}/clientProfiles", json={"clientProfileName": "few"}))
    user = {"clientUsername": "ann", "password": "a secret", "clientProfileName": "few", "enabled": True}
    done(semp.post(f"{sales}/clientUsernames", json=user))
    users = done(semp.get(f"{sales}/clientUsernames", params={"select": "clientUsername,enabled"}))
    assert users == [{"clientUsername": "ann", "enabled": True}]
    states = done(semp.get("/monitor/msgVpns", params={"select": "msgVpnName,state"}))
    assert states == [{"msgVpnName": "default", "state": "up"}, {"msgVpnName": "sales", "state": "up"}]
    done(semp.delete(f"{sales}/clientUsernames/ann"))
    done(semp.delete(f"{sales}/clientProfiles/few"))
    done(semp.delete(sales))
    assert done(semp.get("/monitor/msgVpns", params={"select": "msgVpnName"})) == [{"msgVpnName": "default"}]
