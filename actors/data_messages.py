"""The messages of the data path: what passes between publishers, partitions, consumers and the spool all the time.

They carry batches and ranges, never single messages. Compiled, because each is made for every batch.
"""

from dataclasses import dataclass
from typing import Final, final

from messaging.address import Address
from messaging.batch import MessageBatch
from messaging.effects import Delivery
from messaging.flows import Flow
from messaging.publication import Publication
from messaging.routing import ShareGroup


@final
@dataclass
class Append:
    """Put a batch into the partition. `publication` is None for queues that are never written."""

    batch: MessageBatch
    publication: Publication | None
    rows: list[int] | None  # the rows of the publication's batch that `batch` is made of; None: all


@final
@dataclass
class SharedDirect:
    """A direct batch for one member of a shared group. A plain direct batch is posted as it is."""

    group: ShareGroup
    batch: MessageBatch


@final
@dataclass
class Confirmed:
    """A publish is safe: on disk, or settled by all its consumers before it had to be."""

    token: int


@final
@dataclass
class Refused:
    """A publish could not be stored."""

    token: int
    reason: str


@final
@dataclass
class Resume:
    """The destination you waited for can take more."""


@final
@dataclass
class Deliveries:
    """Partition -> consumer: messages of one flow, in sequence order within this partition."""

    flow: Flow
    partition: Address
    partition_number: int
    deliveries: list[Delivery]


@final
@dataclass
class Settle:
    """Consumer -> partition: the outcome of half-open sequence ranges. Under an old epoch it changes nothing."""

    flow_id: int
    epoch: int
    ranges: list[tuple[int, int]]
    outcome: int


@final
@dataclass
class Wake:
    """Consumer -> partition: there is credit again."""


WAKE: Final = Wake()


@final
@dataclass
class Store:
    """Write a publication, which all its partitions have numbered."""

    publication: Publication


@final
@dataclass
class Settled:
    """Half-open ranges of a partition are done, and which publications and pages are no longer needed."""

    partition_id: int
    ranges: list[tuple[int, int]]
    drained: list[Publication]
    dropped_pages: list[int]
    written: bool  # some of it concerns messages that the store has, so this is worth a commit
