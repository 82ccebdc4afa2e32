"""The topics that a queue's definition says it attracts, in the form that matches."""

from sluicegate.messaging.queues.definition import QueueDefinition, QueueInvalid
from sluicegate.messaging.topics.syntax import TopicError, TopicFilter, parse_queue_subscription, syntax_of


def topics_of(definition: QueueDefinition) -> tuple[list[TopicFilter], list[TopicFilter]]:
    """Return the topics a queue attracts, and those excepted. Raises QueueInvalid naming the bad one."""
    filters: list[TopicFilter] = []
    exceptions: list[TopicFilter] = []
    for text in definition.subscriptions:
        try:
            is_exception, topic_filter = parse_queue_subscription(text, syntax_of(text))
        except TopicError as error:
            raise QueueInvalid("subscriptions", str(error), "a topic filter in SMF or MQTT syntax") from error
        (exceptions if is_exception else filters).append(topic_filter)
    return filters, exceptions


def topics_added(before: QueueDefinition, after: QueueDefinition) -> list[TopicFilter]:
    """Return the topics by which a queue attracts more than it did; all of them where an exception is gone."""
    old_filters, old_exceptions = topics_of(before)
    filters, exceptions = topics_of(after)
    is_exception_gone = not {each.text for each in old_exceptions} <= {each.text for each in exceptions}
    known: set[str] = set() if is_exception_gone else {each.text for each in old_filters}
    return [each for each in filters if each.text not in known]
