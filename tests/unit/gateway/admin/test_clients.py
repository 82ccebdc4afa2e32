"""Clients, MQTT sessions, retained messages and listeners over the admin API."""

from typing import Any

import pytest

from sluicegate.gateway.views.clients.connections import ClientSubscriptionView
from sluicegate.gateway.views.clients.retained import RetainedContentView, RetainedMessageView
from sluicegate.gateway.views.clients.sessions import MqttSessionView
from support.operations.memory_clients import client_view
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin


def subscription(text: str) -> ClientSubscriptionView:
    return ClientSubscriptionView(
        subscription=text,
        topic=text,
        share_name=None,
        queue=None,
        dto_priority="P1",
        qos=1,
        no_local=False,
        retain_as_published=False,
        retain_handling=0,
        identifier=None,
        selector=None,
    )


def session(client_id: str, *, connected: bool) -> MqttSessionView:
    return MqttSessionView(
        client_id=client_id,
        client_username="",
        connected=connected,
        expiry_s=60,
        disconnected_ms=None,
        expires_ms=None,
        subscriptions_count=1,
        queue=None,
        ready_count=0,
        unacked_count=0,
        spooled_bytes=0,
        unreleased_count=0,
        will=None,
    )


def retained(topic: str, payload: str = "on") -> RetainedContentView:
    message = RetainedMessageView(
        topic=topic,
        size_bytes=len(payload),
        qos=1,
        publisher="lamp",
        published_ms=1,
        expires_ms=None,
        content_type=None,
    )
    return RetainedContentView(
        message=message,
        payload=payload,
        payload_encoding="text",
        correlation_id=None,
        reply_to=None,
        user_properties=(),
    )


def test_a_client_is_shown_by_its_encoded_name(admin: RunningAdmin, node: MemoryNode) -> None:
    node.clients = [client_view("hall/lamp"), client_view("other")]
    shown: Any = admin.ask("GET", "/clients/hall%2Flamp").json()
    assert (shown["name"], [each["client"]["name"] for each in shown["connections"]]) == ("hall/lamp", ["hall/lamp"])
    assert shown["connections"][0]["mqtt"]["keep_alive_s"] == 60
    assert admin.ask("GET", "/clients/lamp").status == 404


def test_subscriptions_of_a_client_come_in_pages(admin: RunningAdmin, node: MemoryNode) -> None:
    node.client_topics["lamp"] = [subscription(text) for text in ("a/1", "a/2", "b/1")]
    page: Any = admin.ask("GET", "/clients/lamp/subscriptions?topic_str=a*&after=1&limit=5").json()
    assert (page["total_count"], [each["topic"] for each in page["subscriptions"]]) == (2, ["a/2"])
    assert admin.ask("GET", "/clients/lamp/subscriptions?limit=0").status == 422
    assert admin.ask("GET", "/clients/nobody/subscriptions").status == 404


@pytest.mark.parametrize(("query", "found"), [("", ["a/1", "a/2", "b"]), ("client_id=a*&connected=1", ["a/1"])])
def test_sessions_are_selected_by_name_and_by_connection(
    admin: RunningAdmin, node: MemoryNode, query: str, found: list[str]
) -> None:
    node.sessions = [session("a/1", connected=True), session("a/2", connected=False), session("b", connected=True)]
    page: Any = admin.ask("GET", f"/mqtt-sessions?{query}").json()
    assert [each["client_id"] for each in page["sessions"]] == found


def test_a_session_is_ended_once(admin: RunningAdmin, node: MemoryNode) -> None:
    node.sessions = [session("a/1", connected=False)]
    assert admin.ask("GET", "/mqtt-sessions/a%2F1").json()["expiry_s"] == 60
    assert admin.ask("DELETE", "/mqtt-sessions/a%2F1").status == 204
    assert admin.ask("DELETE", "/mqtt-sessions/a%2F1").status == 404
    assert admin.ask("GET", "/mqtt-sessions?connected=2").status == 422


@pytest.mark.parametrize(
    ("topic", "found"),
    [
        ("", ["hall/1", "hall/1/hue", "yard/1"]),
        ("hall/%2B", ["hall/1"]),
        ("%23", ["hall/1", "hall/1/hue", "yard/1"]),
        ("*/1", ["hall/1", "yard/1"]),
        ("hall/1", ["hall/1"]),
        ("$SYS/%23", ["$SYS/broker/uptime"]),
        ("$*", ["$SYS/broker/uptime"]),
    ],
)
def test_retained_messages_are_selected_by_filter_or_pattern(
    admin: RunningAdmin, node: MemoryNode, topic: str, found: list[str]
) -> None:
    """A wildcard at the beginning does not reach topics that begin with `$` [MQTT 4.7.2-1]."""
    topics = ("$SYS/broker/uptime", "hall/1", "hall/1/hue", "yard/1")
    node.retained = {each: retained(each) for each in topics}
    query = f"?topic={topic}" if topic else ""
    page: Any = admin.ask("GET", f"/retained-messages{query}").json()
    assert [each["topic"] for each in page["messages"]] == found


def test_a_wrong_filter_is_answered_with_what_is_wrong(admin: RunningAdmin) -> None:
    answer = admin.ask("GET", "/retained-messages?topic=hall/a%23")
    assert (answer.status, answer.json()["field"]) == (422, "topic")


def test_a_retained_message_is_shown_with_its_payload_and_deleted_once(admin: RunningAdmin, node: MemoryNode) -> None:
    node.retained = {"hall/1": retained("hall/1", "21.5")}
    shown: Any = admin.ask("GET", "/retained-messages/hall%2F1").json()
    assert (shown["payload"], shown["message"]["size_bytes"]) == ("21.5", 4)
    assert admin.ask("DELETE", "/retained-messages/hall%2F1").status == 204
    gone = admin.ask("DELETE", "/retained-messages/hall%2F1")
    assert (gone.status, gone.json()["detail"]) == (404, "nothing is retained on topic 'hall/1'")
