"""The topics that a queue's definition says it attracts, in the form that matches."""

from messaging.queue_config import QueueDefinition, QueueInvalid
from messaging.topics import TopicError, TopicFilter, parse_queue_subscription, syntax_of


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
