"""What the replicas of a broker tell each other: who is there, and how far. It decides nothing.

Each replica publishes its state once a second, and keeps what it hears. So any of them can answer operators, and an
owner that stops knows which standby is warm.
"""

from dataclasses import asdict, dataclass
from typing import Final, final

import orjson

STATE_S: Final = 1.0  # between two messages of a replica
GONE_S: Final = 3.5  # without a message, and it does not count as there

OWNER: Final = "owner"
STANDBY: Final = "standby"
TAKING_OVER: Final = "taking over"
STARTING: Final = "starting"
AWAY: Final = "away"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """What a replica says of itself."""

    name: str
    instance: str  # differs with each start
    role: str  # OWNER, STANDBY, TAKING_OVER, STARTING, or AWAY when its process ends
    epoch: int  # of the last owner in the log, as far as the replica has read it
    position: int  # number of the last record that it has
    lag_messages: int  # of the stream that it has not read; 0 for an owner
    lag_bytes: int
    caught_up: bool  # it can take over at once
    release: str
    lease_ms: int
    reads_level: int = 1  # the highest feature level of a log that it reads
    endpoints: tuple[tuple[str, str], ...] = ()  # name and URL of its open ports
    problem: str = ""  # why it cannot take over
    has_room: bool = True  # its disk has room for a broker whose owner's disk is full


def encode_state(state: ReplicaState) -> bytes:
    """Return the message with a state."""
    return orjson.dumps(asdict(state))


def decode_state(data: bytes) -> ReplicaState | None:
    """Return the state of a message, None when it is none.

    Fields of later releases are passed over, and those with a default need not be there: earlier releases lack them.
    """
    try:
        fields = orjson.loads(data)
        return ReplicaState(
            **{name: fields[name] for name in ReplicaState.__slots__ if name in fields and name != "endpoints"},
            endpoints=tuple((str(name), str(url)) for name, url in fields["endpoints"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


@final
class Members:
    """The replicas of a broker, as one of them hears of them."""

    def __init__(self, names: tuple[str, ...], own: str, instance: str) -> None:
        """`names`: of all, those first that shall own the broker; `own` and `instance`: of the one that hears."""
        self.names = names
        self._own: Final = own
        self._heard: Final[dict[str, tuple[ReplicaState, float]]] = {}
        self._instance: Final = instance
        self.has_owner_been_heard = False  # another replica than this one
        self._double_s = float("-inf")  # when another process of the own name was heard last

    def hear(self, state: ReplicaState, now_s: float) -> None:
        """Take the state of a replica, by the monotonic clock here."""
        if state.name not in self.names:
            return
        if state.name == self._own and state.instance != self._instance:
            self._double_s = now_s
            return
        self.has_owner_been_heard |= state.role == OWNER and state.name != self._own
        self._heard[state.name] = (state, now_s)

    def is_double(self, now_s: float) -> bool:
        """Return whether another process has the name of this replica."""
        return now_s - self._double_s <= GONE_S

    def present(self, now_s: float) -> dict[str, ReplicaState]:
        """Return the replicas that were heard lately, by name, in the order of all."""
        found = ((name, self._heard.get(name)) for name in self.names)
        return {
            name: heard[0]
            for name, heard in found
            if heard is not None and heard[0].role != AWAY and now_s - heard[1] <= GONE_S
        }

    def owner(self, now_s: float) -> ReplicaState | None:
        """Return who owns the broker, as far as it is known; of two the one of the later epoch."""
        owners = [each for each in self.present(now_s).values() if each.role == OWNER]
        return max(owners, key=lambda each: each.epoch, default=None)

    def snapshot_maker(self, now_s: float) -> str | None:
        """Return the replica that makes snapshots: the first standby that follows, or else the owner."""
        present = self.present(now_s).items()
        standbys = [name for name, state in present if state.role == STANDBY and state.caught_up]
        owner = self.owner(now_s)
        return standbys[0] if standbys else None if owner is None else owner.name

    def successor(self, now_s: float) -> str | None:
        """Return the first standby that can take over at once, rather one whose disk has room; None: there is none."""
        ready = self._ready(now_s)
        return next((each.name for each in ready if each.has_room), ready[0].name if ready else None)

    def successor_with_room(self, now_s: float) -> str | None:
        """Return the first standby that can take over at once, and whose disk has room; None if there is none."""
        return next((each.name for each in self._ready(now_s) if each.has_room), None)

    def _ready(self, now_s: float) -> list[ReplicaState]:
        found = self.present(now_s).values()
        return [each for each in found if each.name != self._own and each.role == STANDBY and each.caught_up]
