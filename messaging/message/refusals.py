"""The verdicts of admission, their texts for publishers, and which verdicts a publisher is told.

`messaging.queues.admission` makes the checks and defines their order.
"""

from typing import Final

ADMITTED: Final = 0
REFUSED_SPOOL_FULL: Final = 1  # the node's spool quota, the disk, or the LMDB map
REFUSED_VPN_FULL: Final = 2  # the message VPN's quota
REFUSED_QUEUE_FULL: Final = 3  # the queue's own quota
REFUSED_MESSAGE_TOO_LARGE: Final = 4
REFUSED_SHUT_DOWN: Final = 5  # the queue's ingress is off
REFUSED_LOW_PRIORITY: Final = 6  # the queue is too full for a message of low priority
REFUSED_QUEUE_COUNT: Final = 7  # messages in the queue
REFUSED_SPOOL_COUNT: Final = 8  # messages in the node's spool
REFUSED_NOT_FOUND: Final = 9
REFUSED_NO_MATCH: Final = 10  # the topic has no subscriber, and the VPN is set to report that to publishers
REFUSED_NOT_STORED: Final = 11  # admitted, but the store could not write it
REFUSED_PUBLISH_ACL: Final = 12  # the client's ACL profile does not permit publishing to the topic
REFUSED_GUARANTEED_SEND: Final = 13  # the client profile permits direct messages only
REFUSED_SPOOL_FAILED: Final = 14  # the spool cannot be written, for another reason than space
REFUSED_RETAINED_FULL: Final = 15  # bytes of the message VPN's retained messages
REFUSED_RETAINED_COUNT: Final = 16  # their number
REFUSED_MOVING: Final = 17  # a queue that gets it is changing its home at this moment
REFUSED_PAYLOAD: Final = 18  # the payload does not fit a rule for the topic

REFUSAL_TEXTS: Final = (
    "",
    "503 Spool Over Quota: the broker's message spool is full",
    "503 Spool Over Quota: the message VPN's spool quota is used up",
    "503 Spool Over Quota: the queue's message spool quota is used up",
    "400 Document Is Too Large: the message is larger than the queue takes",
    "503 Queue Shutdown: the queue's ingress is shut down",
    "503 Low Priority Msg Congestion: the queue holds too many messages for one of low priority",
    "503 Max message usage exceeded: the queue holds the most messages it may",
    "503 Max message usage exceeded: the broker holds the most messages it may",
    "400 Queue Not Found: there is no such queue",
    "503 No Subscription Match: nobody subscribes to the topic",
    "503 Spool Over Quota: the message could not be stored",
    "403 Publish ACL Denied: the client may not publish to this topic",
    "403 Permission Denied: the client profile does not allow to send guaranteed messages",
    "503 Message Spool Failed: the broker cannot write its message spool",
    "503 Retained Message Quota Exceeded: the message VPN's retained messages use up their memory",
    "503 Retained Message Quota Exceeded: the message VPN has the most retained messages it may",
    "503 Queue Is Moving: a queue that gets the message is changing its broker, try again",
    "422 Payload Format Invalid: the payload does not fit a rule for its topic",
)
REFUSAL_COUNTERS: Final = (
    "",
    "spool_usage_exceeded",
    "vpn_usage_exceeded",
    "endpoint_usage_exceeded",
    "max_msg_size_exceeded",
    "endpoint_disabled",
    "low_priority_msg_congestion",
    "queue_msg_count_exceeded",
    "spool_msg_count_exceeded",
    "queue_not_found",
    "no_subscription_match",
    "spool_to_disk_failed",
    "publish_acl_denied",
    "guaranteed_send_denied",
    "spool_failed",
    "retained_usage_exceeded",
    "retained_count_exceeded",
    "queue_moving",
    "payload_invalid",
)

REJECT_NEVER: Final = 0  # drop for this queue, confirm the publisher
REJECT_WHEN_ENABLED: Final = 1  # refuse for every reason but a shut-down ingress
REJECT_ALWAYS: Final = 2


def refuses_publisher(verdict: int, reject_behavior: int) -> bool:
    """Return whether a verdict of a queue is reported to the publisher; else the queue alone drops the message."""
    if verdict in (REFUSED_SPOOL_FULL, REFUSED_VPN_FULL, REFUSED_SPOOL_COUNT, REFUSED_SPOOL_FAILED):
        return True  # whatever the queue's setting: no queue can take it
    if verdict == REFUSED_SHUT_DOWN:
        return reject_behavior == REJECT_ALWAYS
    return reject_behavior != REJECT_NEVER


def refusal_text(verdict: int, refused_by: str, limit: str = "") -> str:
    """Return the text for a publisher: `refused_by` is the queue that refused, `limit` its limit; may be empty."""
    text = limited_text(verdict, limit)
    return f"{text} ({refused_by})" if refused_by else text


def limited_text(verdict: int, limit: str) -> str:
    """Return why a message is refused, with the limit where there is one."""
    text = REFUSAL_TEXTS[verdict]
    return f"{text}, at most {limit}" if limit else text
