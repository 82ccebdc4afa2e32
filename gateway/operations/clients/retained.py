"""Retained messages: selected by topic, and described as operators see them."""

from collections.abc import Callable
from typing import Final

from sluicegate.gateway.views.clients.retained import (
    RetainedContentView,
    RetainedMessagesView,
    RetainedMessageView,
    RetainedQuery,
    whole_payload,
)
from sluicegate.gateway.views.errors import Refused
from sluicegate.gateway.views.queues.messages import PropertiesPreview
from sluicegate.gateway.views.text import name_pattern
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.routing.retained_messages import RetainedMessage
from sluicegate.messaging.topics.syntax import (
    EVENT_TOPICS,
    Syntax,
    TopicError,
    hidden_from_wildcards,
    matches,
    parse_filter,
)

FILTER_CHARACTERS: Final = ("+", "#")


def topic_test(text: str) -> Callable[[str], bool]:
    """Return whether topics are wanted: see `RetainedQuery.topic`. Raises QueueInvalid for a wrong filter."""
    if not any(each in text for each in FILTER_CHARACTERS):
        pattern, hides = name_pattern(text), text[:1] in ("", "*", "?")
        return lambda topic: pattern.fullmatch(topic) is not None and not (hides and hidden_from_wildcards(topic))
    try:
        wanted = parse_filter(text, Syntax.MQTT)
    except TopicError as problem:
        raise QueueInvalid("topic", str(problem), "a topic filter such as sensors/+/state, or a pattern") from None
    return lambda topic: matches(wanted, topic)


def page_of(
    found: list[RetainedMessage], question: RetainedQuery, wanted: Callable[[str], bool]
) -> RetainedMessagesView:
    """Return the page of a query. A million messages take seconds: run it off the event loop."""
    by_topic = {each.batch.topic_of(0): each for each in found}
    topics = sorted(topic for topic in by_topic if wanted(topic))
    page = topics[question.after : question.after + question.limit]
    return RetainedMessagesView(total_count=len(topics), messages=tuple(retained_view(by_topic[each]) for each in page))


def retained_view(message: RetainedMessage) -> RetainedMessageView:
    """Return a retained message without its payload."""
    batch, headers = message.batch, message.batch.headers_of(0)
    return RetainedMessageView(
        topic=batch.topic_of(0),
        size_bytes=len(batch.payloads()[0]),
        qos=batch.qos,
        publisher=batch.publisher,
        published_ms=batch.received_ms,
        expires_ms=None if headers is None else headers.expires_at_ms or None,
        content_type=None if headers is None else PropertiesPreview().text(headers.content_type),
    )


def content_view(message: RetainedMessage) -> RetainedContentView:
    """Return a retained message with its payload, and the beginning of its properties."""
    preview = PropertiesPreview()
    headers = message.batch.headers_of(0)
    payload, encoding = whole_payload(message.batch.payloads()[0])
    return RetainedContentView(
        message=retained_view(message),
        payload=payload,
        payload_encoding=encoding,
        correlation_id=None if headers is None else preview.correlation(headers.correlation),
        reply_to=None if headers is None else preview.text(headers.reply_to),
        user_properties=() if headers is None else preview.user_properties(headers.user_properties),
        properties_truncated=preview.truncated,
    )


def check_is_clients(topic: str) -> None:
    """Raise Refused for a topic on which only the gateway publishes."""
    if topic.startswith(EVENT_TOPICS):
        raise Refused("the gateway itself publishes there, and would do so again: see mqtt.sys_interval_s")


def deletion(topic: str, wall_ms: int) -> MessageBatch:
    """Return the message that deletes what is retained on a topic: an empty one with RETAIN [MQTT 3.3.1-6].

    Neighbor brokers delete it as well. Nobody is sent the message: it is for the retained set alone.
    """
    return MessageBatch(
        topic=topic,
        topics=None,
        payloads=[b""],
        headers=None,
        qos=AT_LEAST_ONCE,
        retain=True,
        publisher="",
        received_ms=wall_ms,
        payload_bytes=0,
    )
