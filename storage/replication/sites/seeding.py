"""The begin of a standby site's log: the whole log of the active site, or a snapshot of it and what follows."""

from sluicegate.storage.replication.jetstream import JetStream
from sluicegate.storage.replication.replica import LogMissing
from sluicegate.storage.replication.sites.receiving import Receiver
from sluicegate.storage.replication.stream import StreamUnavailable
from sluicegate.storage.replication.trimming.plan import position_of_new_hold, to_install
from sluicegate.storage.replication.trimming.snapshots import Snapshots

WAIT_S = 1.0


async def has_begun(own: JetStream) -> bool:
    """Return whether a stream has something of the log. Raises what it raises."""
    if not await own.exists():
        return False
    bounds = await own.bounds()
    return bounds.last >= bounds.first


async def seed(
    source: JetStream,
    own: JetStream,
    theirs: Snapshots,
    here: Snapshots,
    *,
    replica: str,
    copies: int,
    bytes_max: int,
) -> int:
    """Make the stream of a standby site, and receive what the active site's has now; return the number of messages.

    If that was trimmed, a snapshot is copied first, as one of `replica`, and the stream begins with its last record: so
    replicas begin with it as they do at the active site. Several replicas may do this at a time. Raises
    StreamUnavailable while there is nothing to begin with, and what streams and snapshots raise: then call it again.

    A stream that was made here, and has nothing yet, begins where the log of the active site went on by then. Raises
    LogMissing if that was trimmed past it meanwhile: no call can fill this stream any more.
    """
    bounds = await source.bounds()
    if bounds.last == 0:
        raise StreamUnavailable(f"{source.name} of the other site has nothing yet")
    first = 1
    if bounds.first > 1:
        first = await _copied_snapshot(theirs, here, bounds.first, replica=replica, copies=copies)
    if not await own.exists():
        await own.create(replica_count=copies, bytes_max=bytes_max, first=first)
    here_first, here_last, _ = await own.bounds()
    if here_last < here_first and not bounds.first - 1 <= here_last <= bounds.last:
        raise LogMissing(f"{own.name} waits for message {here_first}, and the other site has {bounds.first} and later")
    receiver = Receiver(source, own, here_last)
    received = 0
    while receiver.position < bounds.last:
        if not await receiver.receive(WAIT_S):  # another replica has the next place
            received += receiver.received_count
            receiver = Receiver(source, own, (await own.bounds()).last)
    return received + receiver.received_count


async def _copied_snapshot(theirs: Snapshots, here: Snapshots, first: int, *, replica: str, copies: int) -> int:
    """Have a snapshot here behind which the log goes on from `first`; return the number of its last record."""
    await here.create(copies)
    known = position_of_new_hold(await here.all())
    if known >= first:
        return known
    usable = to_install(await theirs.all(), first)
    if not usable:
        raise StreamUnavailable("the other site has trimmed its log, and no snapshot that can be used")
    await here.copy(usable[0].name, theirs, replica)
    return usable[0].position
