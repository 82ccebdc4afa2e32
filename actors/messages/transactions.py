"""Messages from the commit of a transaction to partitions and to the spool."""

from typing import Final, final

from sluicegate.messaging.message.address import Address


@final
class PrepareSettlement:
    """Ask of a partition: take half-open ranges from the flow that holds them, for a commit in progress.

    Answered with a Prepared, which has to be told how the commit ended; or with None, and nothing is done, when the
    flow does not hold all of them under this epoch, from deliveries with this count.
    """

    def __init__(self, flow_id: int, epoch: int, ranges: list[tuple[int, int]], delivery_count: int) -> None:
        self.flow_id = flow_id
        self.epoch = epoch
        self.ranges = ranges
        self.delivery_count = delivery_count


@final
class CommitEnded:
    """Committer -> a Prepared: the settlement is in the store, or nothing happened."""

    def __init__(self, *, is_made: bool) -> None:
        self.is_made = is_made


COMMIT_MADE: Final = CommitEnded(is_made=True)
COMMIT_FAILED: Final = CommitEnded(is_made=False)


@final
class SettleTogether:
    """Committer -> spool: settle half-open ranges of several partitions in one commit.

    Answered to `reply_to` with Confirmed of `token` when that is made: it frees space, so it is retried until then.
    When the store has failed for good the answer is PublishFailed: then none of it is applied, whatever the store does
    later.
    """

    def __init__(self, settlements: list[tuple[int, int, int]], reply_to: Address, token: int) -> None:
        self.settlements = settlements  # partition id, first, end
        self.reply_to = reply_to
        self.token = token
