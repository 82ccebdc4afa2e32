"""What the supervisor and a broker tell each other over their channel."""

from dataclasses import dataclass
from typing import Any, Final, final

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.node.siblings import Holdings

# What a broker asks of the supervisor.
BEGIN: Final = "begin"  # -> Start
RESTORED: Final = "restored"  # Holdings -> Go: it has read its spool; answered when all others have as well
READY: Final = "ready"  # endpoints, listeners that admit nobody by message VPN: it takes traffic
FAILED: Final = "failed"  # text, advice: it cannot start

# What the supervisor asks of a broker.
STOP: Final = "stop"
RELOAD: Final = "reload"  # Config -> ReloadView
LEARN: Final = "learn"  # number, Holdings: what another broker has, which was started again
CALL: Final = "call"  # Call -> what the operation returns
FOLLOW: Final = "follow"  # Call -> number of a stream of what the operation yields
NEXT: Final = "next"  # number of a stream -> a list of what comes next; empty: it has ended
END: Final = "end"  # number of a stream: nobody reads it any more
EMIT: Final = "emit"  # name of an event, its text and details


@final
@dataclass(frozen=True)
class Start:
    """What a broker begins with."""

    number: int
    names: tuple[str, ...]  # of all brokers of the machine
    config: Config  # its own


@final
@dataclass(frozen=True)
class Go:
    """A broker may open its ports."""

    holdings: dict[int, Holdings]  # of the other brokers, by number


@final
@dataclass(frozen=True)
class Call:
    """An operation on a broker, in one of its message VPNs."""

    vpn: str
    name: str
    arguments: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
