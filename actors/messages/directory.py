"""Requests to the directory of queues: create, find, change and delete a queue. Any actor may send them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.definition import QueueDefinition
from sluicegate.messaging.queues.moves import RECEIVING, MovedQueue, QueueMove
from sluicegate.messaging.queues.pressure import PressureLimits
from sluicegate.messaging.queues.template import QueueTemplate
from sluicegate.messaging.routing.destinations import QueueTarget
from sluicegate.messaging.routing.virtual.definitions import VirtualDestinations

# The purpose of a queue. Named queues belong to administrators and applications; the others come and go with their
# users.
NAMED = "named"
TEMPORARY = "temporary"  # like NAMED, but never written, and deleted some time after its last consumer left
SESSION = "session"  # the guaranteed messages of one MQTT session
SHARED = "shared"  # the guaranteed messages of one shared subscription
SUBSCRIPTION = "amqp-subscription"  # the messages of one subscription of AMQP to a topic
LINK = "link"  # the guaranteed messages for one neighbor broker
FOR_CLIENTS = (NAMED, TEMPORARY)  # queues that clients reach by name


@dataclass(slots=True)
class CreateQueue:
    """Ask of the directory: create a queue, or find it. Answered with a LocalQueue when it is stored.

    Raises QueueExists when `must_be_new` and there is one of that name; DefinitionLost when that has lost its own
    definition. With `gives_back` it gets this definition instead, and keeps its messages; UpdateRefused where it cannot
    now.
    """

    definition: QueueDefinition
    kind: str
    durable: bool
    must_be_new: bool = True
    gives_back: bool = False  # the asker knows the queue's definition, and does not merely want a queue of that name


@dataclass(slots=True)
class DeclareQueue:
    """Ask of the directory: create a queue for a client or administrator; a template sets what was left open.

    Answered with a LocalQueue. Raises QueueExists, QueueInvalid, QueuesExhausted; StoreRefused when the catalog could
    not be written; ClientDenied when the client's profiles do not allow the queue, or its subscriptions.

    A queue that a client declares is owned by its user, if it has one, and cannot be partitioned. A temporary queue is
    never written; it ends when it has been without a consumer for its `expires_unbound_s`, or, when that is 0, for the
    node's `queues.temporary_grace_s`. One that a client declared takes no other client, and ends at once when its
    client unbinds. A queue without a name is anonymous: it is temporary, and gets a name that cannot be guessed.
    """

    asked: dict[str, object]  # name, attributes and subscriptions, as given
    durable: bool | None = None  # None: as the template says, and durable without one
    rights: ClientRights | None = None  # of the client that asks; None: an administrator


@dataclass(slots=True)
class UpdateQueue:
    """Ask of the directory: change the definition of a queue. Answered with the new one when it is stored.

    `change` makes it from the result of earlier changes; its exception is the answer. Raises UpdateRefused for a change
    that cannot be made now, and PermissionDenied: with `modify-topic` a client may change the subscriptions, and with
    `delete` the attributes as well. Raises ClientDenied where the queue would gain topics that the client may not
    subscribe to.
    """

    name: str
    change: "Callable[[LocalQueue], QueueDefinition]"
    rights: ClientRights | None = None  # of the client that asks; None: an administrator, with all rights
    gives_back: bool = False  # the definition restores one that was lost


@dataclass(slots=True)
class FindQueue:
    """Ask of the directory. Answered with a LocalQueue, or None.

    A client cannot find the broker's own queues, of sessions and subscriptions: their messages are for their clients.
    If it wants to consume, a queue that definitions of virtual destinations require is created. Raises ClientDenied
    where it may not receive guaranteed messages, create queues, or subscribe to the topics of this one.
    """

    name: str
    rights: ClientRights | None = None  # of the client that names the queue; None: an administrator, the broker itself
    consumes: bool = False  # the client wants to; its user owns a queue that is created
    anywhere: bool = False  # also a queue of a neighbor broker: then the answer is a QueueHandle


@dataclass(slots=True)
class FindElsewhere:
    """Links -> directory: find queues of neighbor brokers with this function from now on."""

    find: "Callable[[str], QueueHandle | None]"


@dataclass(slots=True)
class MakeNamedQueues:
    """Ask of the directory: create the missing queues that definitions name. Answered with None."""


@dataclass(slots=True)
class DeleteQueue:
    """Ask of the directory: delete a queue, its flows and its messages. Answered with whether it existed.

    Raises PermissionDenied for a client without the permission to delete it.
    """

    name: str
    user: str | None = None  # the client that asks; None: an administrator or the broker itself, with all rights


@dataclass(slots=True)
class DefineConsumerQueues:
    """Ask of the directory: create queues by these definitions from now on. Answered with None."""

    definitions: VirtualDestinations
    are_made: bool  # those of virtual topics, for their consumers; else administrators create them
    is_home: Callable[[str], bool]  # whether a queue that definitions name is made here, and not at another broker


@dataclass(slots=True)
class NotifyConsumers:
    """Router -> directory -> queue: send the queue's consumers to its watcher."""

    name: str


@dataclass(slots=True)
class ListQueues:
    """Ask of the directory; answered with a list of LocalQueue by name."""


@dataclass(slots=True)
class SetQueueLimits:
    """Node -> directory: apply these marks for slowing publishers down, in all queues.

    The grace period applies to temporary queues created from now on.
    """

    limits: PressureLimits
    temporary_grace_s: int


@dataclass(frozen=True, slots=True)
class ReconfigureMore:
    """Directory -> itself: have further queues take over changed limits, in another turn."""


class UpdateRefused(Exception):
    """A queue cannot be changed like this now. The text says what would have to change first."""


@dataclass(slots=True)
class QueueExpired:
    """Queue -> directory: delete the queue, which had no consumer for too long."""

    name: str


@dataclass(slots=True)
class KeepQueues:
    """Node -> directory: the node stops. From now on no queue expires, for it is the node that ends their flows."""


class PermissionDenied(Exception):
    """A client lacks a permission. The text begins with `403 Permission Denied`."""


class QueuesExhausted(Exception):
    """The node has its maximum of temporary queues."""


class QueueExists(Exception):
    """There is a queue of that name already."""


class DefinitionLost(QueueExists):
    """There is a queue of that name, with messages, whose definition was lost. The text says what operators can do."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"queue {name!r} is there with its messages, and its definition was lost: operators enable its ingress or"
            " egress, declare it in the configuration, or delete it"
        )


class QueueState(ABC):
    """The state of a queue that other actors may read. The queue's core implements it."""

    @abstractmethod
    def clients(self) -> set[str]:
        """Return the names of the clients that consume or browse the queue."""

    @abstractmethod
    def denial(self, rights: ClientRights | None, user: str, needed: str) -> str:
        """Return why a connection lacks a level of permission; empty when it has it. None: not a client's."""

    @abstractmethod
    def is_partitioned(self) -> bool:
        """Return whether the queue is partitioned by its present configuration."""

    @abstractmethod
    def selector_hint(self) -> str:
        """Return what a consumer should know if the selectors of a partitioned queue's consumers differ, or nothing."""


@dataclass(frozen=True, slots=True)
class QueueHandle:
    """A queue as those see it that consume or browse it: by messages to its actor, wherever its messages are."""

    name: str
    kind: str
    cell: ActorCell
    gate: QueueGate  # tells how many messages there are
    durable: bool
    definition: QueueDefinition
    state: QueueState
    definition_lost: bool = False  # the broker chose the definition, until an operator decides
    incarnation: int = 0  # of the neighbor's spool, which gives sequences; 0 of a LocalQueue, or while it is away
    broker: str = ""  # the neighbor that has the queue; empty: this broker
    vpn: str = ""  # the name that its message VPN has at its broker; empty: this broker's


@dataclass(frozen=True, slots=True)
class LocalQueue(QueueHandle):
    """A queue of this broker. Publishers reach its partitions by its target."""

    target: QueueTarget = field(kw_only=True)
    move: QueueMove | None = None  # to or from another broker of the network, in progress

    @property
    def is_received(self) -> bool:
        """Whether it is being moved here: nobody reaches it yet, and its broker is the other one."""
        return self.move is not None and self.move.stage == RECEIVING


# --- moves to another broker ---


@dataclass(slots=True)
class SetQueueMove:
    """Ask of the directory: a queue begins to move, or its move has another stage, or is over (None).

    Answered with the LocalQueue when that is stored and in force; a move that is over is a queue like others, at this
    broker. Raises UpdateRefused for a queue that cannot move, or is not there, and StoreRefused.
    """

    name: str
    move: QueueMove | None
    session_rows: Sequence[tuple[bytes, bytes]] = ()  # of the session that has come with it: written as well
    drops_kept: bool = False  # what it keeps for readers, and their durable cursors, may be lost
    of_container: bool = False  # it is that of a subscription of AMQP, which only a machine moves


@dataclass(slots=True)
class CheckSubscriptionMove:
    """Ask of the directory: may the queue of a durable subscription of AMQP begin to move?

    Answered with its LocalQueue. Raises UpdateRefused, as `SetQueueMove` would.
    """

    name: str


@dataclass(slots=True)
class ReceiveQueue:
    """Ask of the directory: create a queue that is to be moved here, or find it.

    Answered with the LocalQueue when it is stored. Nobody reaches it until its move is over. Raises QueueExists for
    another queue of that name; otherwise as CreateQueue.
    """

    definition: QueueDefinition
    broker: str  # its home
    kind: str = NAMED  # or SESSION


@dataclass(slots=True)
class DropReceivedQueue:
    """Ask of the directory: delete a queue that was to be moved here, and is not. Answered with None.

    Raises UpdateRefused if it has messages.
    """

    name: str
    broker: str  # that moves it, or has


@dataclass(slots=True)
class EndMovedQueue:
    """Ask of the directory: end a queue whose home another broker is now. Answered with None when that is stored."""

    moved: MovedQueue
    session_keys: Sequence[bytes] = ()  # of the rows of the session that has moved with it: deleted as well


@dataclass(slots=True)
class ForgetMovedQueue:
    """Directory: every broker knows where a queue is that was moved away."""

    name: str


@dataclass(slots=True)
class ListMoves:
    """Ask of the directory. Answered with a Moves."""


@dataclass(slots=True)
class Moves:
    """The moves of a message VPN that are not over."""

    queues: list[LocalQueue]
    moved: list[MovedQueue]  # away from here


# --- templates ---


@dataclass(slots=True)
class PutTemplate:
    """Ask of the directory: store a template. Answered with None when it is stored; raises StoreRefused.

    Raises TemplateExists when `must_be_new` and there is one of that name.
    """

    template: QueueTemplate
    must_be_new: bool


@dataclass(slots=True)
class DeleteTemplate:
    """Ask of the directory. Answered with whether the template existed; queues made from it stay as they are."""

    name: str


@dataclass(slots=True)
class ListTemplates:
    """Ask of the directory; answered with a list of QueueTemplate by name."""


class TemplateExists(Exception):
    """There is a template of that name already."""
