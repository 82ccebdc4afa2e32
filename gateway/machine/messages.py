"""What the supervisor and a broker tell each other over their channel."""

from dataclasses import dataclass
from typing import Any, Final, final

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.node.siblings import Holdings

# What a broker asks of the supervisor.
BEGIN: Final = "begin"  # -> Start
DEFINED: Final = "defined"  # Definitions that its store has -> those that it has to have
RESTORED: Final = "restored"  # Holdings -> Go: it has read its spool; answered when all others have as well
# endpoints, listeners that admit nobody by message VPN -> numbers of retired brokers that have ended: it takes traffic
READY: Final = "ready"
FAILED: Final = "failed"  # text, advice: it cannot start
RETIRING: Final = "retiring"  # Left: what a retired broker still has; whenever that changes
RELEASED: Final = "released"  # Released: what a retired broker has no more
PLACE: Final = "place"  # message VPN, kind, name -> the broker that is to get an object of a retired one
# message VPN, kind, Handed, broker that gets it -> why no other broker has the object; empty: one has it
HAND_OVER: Final = "hand_over"

# What the supervisor asks of a broker.
STOP: Final = "stop"
RELOAD: Final = "reload"  # Config -> ReloadView
LEARN: Final = "learn"  # number, Holdings: what another broker has, which was started again
LEARN_RELEASED: Final = "learn_released"  # number, Released: what another broker has no more
WAITING: Final = "waiting"  # name of another broker -> how many messages wait for it
GONE: Final = "gone"  # number: a retired broker has ended for good
DEFINITIONS: Final = "definitions"  # -> Definitions that it has
CALL: Final = "call"  # Call -> what the operation returns
FOLLOW: Final = "follow"  # Call -> number of a stream of what the operation yields
NEXT: Final = "next"  # number of a stream -> a list of what comes next; empty: it has ended
END: Final = "end"  # number of a stream: nobody reads it any more
HAS: Final = "has"  # message VPN, kind, name -> whether it has the object
ADOPT: Final = "adopt"  # message VPN, kind, Handed: it is to have the object
EMIT: Final = "emit"  # name of an event, its text and details


@final
@dataclass(frozen=True)
class Start:
    """What a broker begins with."""

    number: int
    names: tuple[str, ...]  # of all brokers of the machine, retired ones last
    count: int  # of those that are not retired
    config: Config  # its own


@final
@dataclass(frozen=True)
class Go:
    """A broker may open its ports."""

    holdings: dict[int, Holdings]  # of the other brokers, by number


@final
@dataclass(frozen=True)
class Left:
    """What a retired broker still has."""

    objects_count: int  # queues, sessions, publishers and others; 0: it can be removed
    obstacles: tuple[str, ...] = ()  # what does not go by itself, and why


@final
@dataclass(frozen=True)
class Call:
    """An operation on a broker, in one of its message VPNs."""

    vpn: str
    name: str
    arguments: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
