"""The exchange of interest over one link: what one side sends of its interest, and what the other makes of it.

After each connect the receiver tells the digests of what it knows. The sender answers with the buckets that differ, and
with changes as they happen; all of it is numbered from 1. The receiver acknowledges a number when it is in force. When
all buckets are sent the sender says the sum of its digests, so that the receiver finds a mistake.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, final

from sluicegate.messaging.network.digests import BUCKETS, bucket_of, digest_of
from sluicegate.messaging.network.interest import Change, Interest, InterestSet

BATCH_MAX: Final = 1000  # interests in one message
INTERESTS_MAX: Final = 1_000_000  # of one neighbor and message VPN: some 300 bytes each
UNACKNOWLEDGED_MAX: Final = 64  # notices: a neighbor that is slow to put them in force has so many to keep
LONG_CHARACTERS: Final = 512  # texts of fewer fit into every frame, as UTF-8


class BucketPart(NamedTuple):
    """Sender -> receiver: interests of a bucket. The bucket is complete with its last part."""

    number: int
    bucket: int
    interests: list[Interest]
    is_last: bool


class ChangeNotice(NamedTuple):
    """Sender -> receiver: interests that begin and end."""

    number: int
    change: Change


class Synchronised(NamedTuple):
    """Sender -> receiver: every bucket is sent; with the sum of the digests, modulo 2^64."""

    number: int
    digest: int


Notice = BucketPart | ChangeNotice | Synchronised


@final
class InterestSender:
    """Sends the interest of this broker to one neighbor.

    `interests` is what the export rules of the link let through; the caller changes it with `change`, so that no change
    is left out.
    """

    def __init__(self) -> None:
        self.interests: Final = InterestSet()
        self.sent_number = 0
        self.acknowledged_number = 0
        self._differing: dict[int, None] = {}  # buckets to send
        self._parts: list[tuple[int, list[Interest], bool]] = []  # of the bucket being sent, the last part first
        self._added: dict[Interest, None] = {}
        self._removed: dict[Interest, None] = {}
        self._long: dict[Interest, None] = {}  # that may be too long for a neighbor; all of them
        self._left_out: dict[Interest, None] = {}  # of those, what is too long for this one, and not in `interests`
        self._batch_bytes_max = 0
        self._interest_bytes_max = 0
        self._is_connected = False
        self._has_to_finish = False

    @property
    def is_known(self) -> bool:
        """Whether the neighbor knows all of the interest: everything is sent and acknowledged."""
        return not self.has_unsent and self.acknowledged_number == self.sent_number

    @property
    def has_unsent(self) -> bool:
        """Whether `notices` has, or will have, something to send."""
        if not self._is_connected or self._has_to_finish:
            return True
        return bool(self._parts or self._added or self._removed or self._differing)

    @property
    def left_out_count(self) -> int:
        """The number of interests that are not told, because the neighbor takes no frame of that size."""
        return len(self._left_out)

    def change(self, change: Change) -> None:
        """Change the interest. What ends is taken before what begins."""
        for interest in change.removed:
            if _is_long(interest):
                self._long.pop(interest, None)
                self._left_out.pop(interest, None)
            if self.interests.discard(interest) and self._tells(interest):
                if interest in self._added:
                    del self._added[interest]
                else:
                    self._removed[interest] = None
        for interest in change.added:
            if _is_long(interest):
                self._long[interest] = None
                if self._is_connected and interest.text_bytes() > self._interest_bytes_max:
                    self._left_out[interest] = None
                    continue
            if self.interests.add(interest) and self._tells(interest):
                if interest in self._removed:
                    del self._removed[interest]
                else:
                    self._added[interest] = None

    def connected(self, digests: list[int], batch_bytes_max: int, interest_bytes_max: int) -> None:
        """Begin to send to a neighbor that told the digests of what it knows. Raises ValueError unless 256.

        The texts of the interests in a notice have `batch_bytes_max` together, or there is only one; one that has more
        than `interest_bytes_max` is left out.
        """
        if len(digests) != BUCKETS:
            raise ValueError(f"{len(digests)} digests; there are {BUCKETS}")
        self._interest_bytes_max = interest_bytes_max
        self._left_out = {each: None for each in self._long if each.text_bytes() > interest_bytes_max}
        for interest in self._long:
            if interest in self._left_out:
                self.interests.discard(interest)
            else:
                self.interests.add(interest)  # it may have been too long on the connection before
        self.sent_number = self.acknowledged_number = 0
        self._added, self._removed = {}, {}
        self._parts = []
        self._batch_bytes_max = batch_bytes_max
        known = self.interests.digests
        self._differing = {number: None for number in range(BUCKETS) if digests[number] != known[number]}
        self._is_connected = self._has_to_finish = True

    def disconnected(self) -> None:
        """Send nothing until the neighbor is back."""
        self._is_connected = self._has_to_finish = False
        self._differing, self._added, self._removed = {}, {}, {}
        self._parts = []

    def notices(self) -> Iterator[Notice]:
        """Yield what is to be sent now. The caller may stop between two, and go on later.

        There is no more than `UNACKNOWLEDGED_MAX` until the neighbor acknowledges some.
        """
        while self._is_connected and (notice := self._next()) is not None:
            yield notice

    def acknowledged(self, number: int) -> None:
        """Note that the neighbor has everything up to a number. Raises ValueError for one that was not sent."""
        if not self.acknowledged_number <= number <= self.sent_number:
            raise ValueError(f"{number} is acknowledged; sent are {self.acknowledged_number} to {self.sent_number}")
        self.acknowledged_number = number

    def _tells(self, interest: Interest) -> bool:
        """Return whether a change has to be told: a bucket that is still to be sent will include it."""
        return self._is_connected and bucket_of(interest.hash()) not in self._differing

    def _next(self) -> Notice | None:
        if self.sent_number - self.acknowledged_number >= UNACKNOWLEDGED_MAX:
            return None
        if self._parts:  # a change in between would be undone by the end of the bucket
            bucket, interests, is_last = self._parts.pop()
            return BucketPart(self._numbered(), bucket, interests, is_last)
        if self._removed or self._added:
            # What begins goes before what ends: a subscription whose client leaves has another interest from then on,
            # and the neighbor stores for it all the time.
            added = _taken(self._added, BATCH_MAX, self._batch_bytes_max)
            removed: list[Interest] = []
            if not added:
                removed = _taken(self._removed, BATCH_MAX, self._batch_bytes_max)
            elif not (self._added or _is_long(added[0])):  # a long one may fill the frame
                removed = _taken(self._removed, BATCH_MAX - len(added), self._batch_bytes_max, can_wait=True)
            return ChangeNotice(self._numbered(), Change(added, removed))
        if self._differing:
            self._begin_bucket(next(iter(self._differing)))
            return self._next()
        if self._has_to_finish:
            self._has_to_finish = False
            return Synchronised(self._numbered(), digest_of(self.interests.digests))
        return None

    def _begin_bucket(self, bucket: int) -> None:
        """Cut a bucket into parts; what changes from now on follows them."""
        del self._differing[bucket]
        waiting = dict.fromkeys(reversed(self.interests.bucket(bucket)))
        pieces = [_taken(waiting, BATCH_MAX, self._batch_bytes_max)]
        while waiting:
            pieces.append(_taken(waiting, BATCH_MAX, self._batch_bytes_max))
        self._parts = [(bucket, piece, piece is pieces[-1]) for piece in reversed(pieces)]

    def _numbered(self) -> int:
        self.sent_number += 1
        return self.sent_number


def _is_long(interest: Interest) -> bool:
    return len(interest.topic_filter) + len(interest.group) > LONG_CHARACTERS


def _taken(waiting: dict[Interest, None], count_max: int, bytes_max: int, *, can_wait: bool = False) -> list[Interest]:
    """Take the latest interests from those that wait, as many as fit: one at least, unless it can wait."""
    taken: list[Interest] = []
    size = 0
    while waiting and len(taken) < count_max:
        interest, _ = waiting.popitem()
        size += interest.text_bytes()
        if (taken or can_wait) and size > bytes_max:
            waiting[interest] = None
            break
        taken.append(interest)
    return taken


@final
class InterestReceiver:
    """Keeps the interest of one neighbor, as the neighbor tells it.

    It is in force while the link is up, and kept meanwhile: after a break only what has changed is sent again. Until
    that has come, some messages are sent to a neighbor that no longer wants them, which drops them.
    """

    def __init__(self, interests_max: int = INTERESTS_MAX) -> None:
        self.interests: Final = InterestSet()
        self._interests_max = interests_max
        self.received_number = 0
        self.is_complete = False  # the neighbor has sent all that it wants, since the last connect
        self._bucket: list[Interest] = []  # the parts so far of the bucket being received

    def connected(self) -> list[int]:
        """Return the digests to tell the neighbor after a connect; from now on `interests` is in force."""
        self.received_number = 0
        self.is_complete = False
        self._bucket = []
        return list(self.interests.digests)

    def take(self, notice: Notice) -> Change:
        """Take a notice; return what changes with it.

        Raises ValueError for a number that is not the next, an interest in the wrong bucket, and a digest that does not
        match: then the exchange has to begin again.
        """
        if notice.number != self.received_number + 1:
            raise ValueError(f"notice {notice.number} after {self.received_number}")
        self.received_number = notice.number
        if isinstance(notice, ChangeNotice):
            ending = {each for each in notice.change.removed if each in self.interests}
            self._check_room(len(notice.change.added) - len(ending))
            removed = [each for each in notice.change.removed if self.interests.discard(each)]
            return Change([each for each in notice.change.added if self.interests.add(each)], removed)
        if isinstance(notice, BucketPart):
            self._check_room(len(self._bucket) + len(notice.interests) - self.interests.bucket_count(notice.bucket))
            self._bucket += notice.interests
            if not notice.is_last:
                return Change([], [])
            interests, self._bucket = self._bucket, []
            return self.interests.replace(notice.bucket, interests)
        digest = digest_of(self.interests.digests)
        if digest != notice.digest:
            raise ValueError(f"the digest received is {digest:016x}, that of the neighbor {notice.digest:016x}")
        self.is_complete = True
        return Change([], [])

    def _check_room(self, more_count: int) -> None:
        if self.interests.count + more_count > self._interests_max:
            raise ValueError(f"the neighbor wants more than {self._interests_max} topics, groups and priorities")
