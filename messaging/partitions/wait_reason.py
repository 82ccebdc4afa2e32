"""The reasons why a message waits, by the names that operators see. Which one it is, `standing` finds out."""

from enum import StrEnum


class WaitReason(StrEnum):
    """Why a message that could be delivered is not, or not yet."""

    NOTHING_WAITS = "nothing-waits"  # no message of the key is in the partition, or all are with a consumer
    NO_CONSUMER = "no-consumer"  # no flow is bound
    HOLDDOWN = "holddown"  # the owner has gone, and may come back within the rebalance delay
    HANDOFF = "handoff"  # the partition is paused: its old owner settles what it holds
    SOCKET_SHUT = "socket-shut"  # the consumer does not read what it is sent
    WINDOW_FULL = "window-full"  # the consumer holds as many unsettled messages as it takes
    UNACKED_MAX = "unacked-max"  # it holds as many as the queue lets one flow have
    NODE_UNACKED_MAX = "node-unacked-max"  # all consumers together hold as many as the node lets them have
    NOT_STORED = "not-stored"  # the queue delivers what is stored, and its commit is under way
    DELAYED = "delayed"  # the time before which it may not be delivered has not come
    REDELIVERY_DELAY = "redelivery-delay"  # it failed, and is delivered again after a delay
    BEHIND_A_FAILED_ONE = "behind-a-failed-one"  # an earlier one of its key waits for its redelivery
    RESCALE = "rescale"  # partitions changed, and older messages are unsettled in the one that had its key before
    LEAVING = "leaving"  # it is on its way to another queue
    GROUP_BUSY = "group-busy"  # the consumer that has its message group takes no more, or the group changes hands
    ON_DISK = "on-disk"  # it lies in a page that is read when its turn comes
    NOT_SELECTED = "not-selected"  # no consumer that is there selects it
    BEHIND_OTHERS = "behind-others"  # it goes out when those before it have
