"""`show smrp subscriptions`: Solace's table of subscriptions, over HTTP and on the command line."""

import orjson
import pytest

from sluicegate.gateway.operations.clients.subscriptions import answer, rows_of
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery, SmrpSubscriptionsView
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.deliver_to_one import priorities_of
from sluicegate.messaging.routing.destinations import QueueTarget, ShareGroup, Subscriber, Subscription
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin
from support.operations.shell import Shell


def subscribe(space: TopicSpace, client: Subscriber, text: str, *priorities: str, qos: int = 0) -> None:
    subscription = Subscription(client, qos, None, priorities_of(list(priorities)))
    space.subscribe(parse_filter(text, Syntax.MQTT), client.client, subscription)


@pytest.fixture
def space(node: MemoryNode) -> TopicSpace:
    """Two clients, a queue with an exception, a group of one member with a queue of its own."""
    space = node.space
    worker, monitor = Subscriber("worker"), Subscriber("monitor")
    subscribe(space, worker, "orders/+", "P2", "DA")
    subscribe(space, worker, "news", qos=1)
    subscribe(space, monitor, "#", "P1")
    orders, shared = (
        QueueTarget(
            name,
            QueueGate(None, usage_bytes_max=1, message_bytes_max=1),
            Pressure(high_bytes=1, low_bytes=0),
            durable=True,
        )
        for name in ("orders", "#share/g/jobs")
    )
    orders.exceptions = [parse_filter("orders/test/>", Syntax.SMF)]
    for text in ("orders/>", "red*"):
        space.subscribe(parse_filter(text, Syntax.SMF), orders, orders)
    group = ShareGroup("g", "jobs")
    group.join(worker)
    group.queue = shared
    space.subscribe(parse_filter("jobs", Syntax.MQTT), group, group)
    return space


def rows(view: SmrpSubscriptionsView) -> list[tuple[str, ...]]:
    """Return destination, the flags T P R, priority and subscription of each row."""
    return [
        (
            each.destination_name,
            each.destination_type + each.persistence + each.redundancy,
            each.dto_priority,
            each.subscription,
        )
        for each in view.subscriptions
    ]


def asked(space: TopicSpace, **question: str | int) -> SmrpSubscriptionsView:
    made = SmrpQuery(**question)  # type: ignore[arg-type]  # fields of a question
    return answer(rows_of(space, made), made)


def test_every_subscription_is_a_row_with_its_flags(space: TopicSpace) -> None:
    """Solace 3.2: destination, T P R, block id, P1 to P4 or DA, subscription."""
    view = asked(space)
    assert rows(view) == [
        ("#share/g/jobs", "QPP", "DA", "#share/g/jobs"),
        ("monitor", "CNP", "DA", "#"),
        ("orders", "QPP", "DA", "!orders/test/>"),
        ("orders", "QPP", "DA", "orders/>"),
        ("orders", "QPP", "DA", "red*"),
        ("worker", "CNP", "DA", "#share/g/jobs"),
        ("worker", "CPP", "P1", "news"),
        ("worker", "CNP", "DA", "orders/+"),
        ("worker", "CNP", "P2", "orders/+"),
    ]
    assert (view.vpn_name, view.exported, view.complete_percent, view.total_count) == ("default", False, 100, 9)
    assert {each.block_id for each in view.subscriptions} == {None}


@pytest.mark.parametrize(
    ("question", "subscriptions"),
    [
        ({"destination_name": "work*"}, ["#share/g/jobs", "news", "orders/+", "orders/+"]),
        ({"destination_name": "w?rker", "topic_str": "*ers*"}, ["orders/+", "orders/+"]),
        ({"topic_str": "orders/>"}, ["orders/>"]),
        ({"topic_str": "red*"}, ["red*"]),
        ({"topic": "reddish"}, ["#", "!orders/test/>", "red*"]),
        ({"topic": "jobs", "destination_name": "worker"}, ["#share/g/jobs"]),
        ({"vpn_name": "def*", "after": 1, "limit": 2}, ["#", "!orders/test/>"]),
        ({"vpn_name": "other"}, []),
        ({"topic_str": "ORDERS*"}, []),
    ],
)
def test_rows_are_chosen_by_name_topic_and_text(
    space: TopicSpace, question: dict[str, str | int], subscriptions: list[str]
) -> None:
    assert [each.subscription for each in asked(space, **question).subscriptions] == subscriptions


def test_the_admin_port_answers_a_page(admin: RunningAdmin, space: TopicSpace) -> None:
    page = admin.ask("GET", "/smrp/subscriptions?destination_name=worker&after=3&limit=5").json()
    assert page["total_count"] == 4
    assert page["subscriptions"] == [
        {
            "destination_name": "worker",
            "destination_type": "C",
            "persistence": "N",
            "redundancy": "P",
            "block_id": None,
            "dto_priority": "P2",
            "subscription": "orders/+",
        }
    ]
    wrong = admin.ask("GET", "/smrp/subscriptions?limit=0")
    assert (wrong.status, wrong.json()["field"]) == (422, "limit")


def test_the_command_prints_the_table_with_its_legend(admin: RunningAdmin, space: TopicSpace) -> None:
    shell = Shell(admin.url)
    printed = shell.run("show", "smrp", "subscriptions", "--destination-name", "worker", "--vpn-name", "default")
    assert "T - Destination Type (C=local client, Q=local queue, R=remote router)" in printed
    assert "Message VPN : default (exported: No; 100% complete)" in printed
    assert "Destination Name  Flags T P R  BlkID  DTO Prio  Subscription" in printed
    assert "worker                  C N P  -      P2        orders/+" in printed
    assert "showing 1 of 4 subscriptions, starting at 3" in shell.run(
        *("show", "smrp", "subscriptions", "--destination-name", "worker", "--after", "2", "--limit", "1")
    )
    found = orjson.loads(shell.run("show", "smrp", "subscriptions", "--primary", "--topic", "news", "--json"))
    assert [each["destination_name"] for each in found["subscriptions"]] == ["monitor", "worker"]


def test_the_list_of_subscriptions_says_the_same_in_words(admin: RunningAdmin, space: TopicSpace) -> None:
    shell = Shell(admin.url)
    lines = shell.run("subscription", "list", "orders/*", "--name", "worker").splitlines()
    assert lines[0].split() == ["subscription", "type", "name", "spooled", "priority"]
    assert ["orders/+", "client", "worker", "no", "P2"] in [each.split() for each in lines]
    assert {each.split()[2] for each in lines[1:]} == {"worker"}
    assert "showing 1 of 4 subscriptions, starting at 3" in shell.run(
        *("subscription", "list", "--name", "worker", "--after", "2", "--limit", "1")
    )
    found = orjson.loads(shell.run("subscription", "list", "--topic", "news", "--json"))
    assert [each["destination_name"] for each in found["subscriptions"]] == ["monitor", "worker"]
