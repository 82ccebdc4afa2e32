"""Topic names as MQTT clients send them: in a PUBLISH or as a will topic. The syntax itself is
`messaging.topics.syntax`.
"""

from sluicegate.messaging.topics.syntax import TopicError, check_topic_name
from sluicegate.protocols.mqtt.codec.errors import PeerViolation
from sluicegate.protocols.mqtt.codec.reason_codes import TOPIC_NAME_INVALID
from sluicegate.protocols.mqtt.codec.wire import decode_string, has_unwanted_characters


def decode_topic(raw: bytes, refuse_control_characters: bool) -> str:
    """Decode and check the topic name of a will or PUBLISH. Raises PeerViolation."""
    topic = decode_string(raw)
    try:
        check_topic_name(topic)
    except TopicError as error:
        raise PeerViolation(TOPIC_NAME_INVALID, f"topic {error} [3.3.2-2]") from None
    if refuse_control_characters and has_unwanted_characters(topic):
        raise PeerViolation(TOPIC_NAME_INVALID, "topic has control characters")
    return topic
