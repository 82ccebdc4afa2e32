"""Requests to the directory of queues: create, find, change and delete a queue. Any actor may send them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.queues.definition import QueueDefinition
from sluicegate.messaging.queues.pressure import PressureLimits
from sluicegate.messaging.queues.template import QueueTemplate
from sluicegate.messaging.routing.destinations import QueueTarget
from sluicegate.messaging.routing.virtual.definitions import VirtualDestinations

# What a queue is for. Named queues belong to administrators and applications; the others come and go with their users.
NAMED = "named"
TEMPORARY = "temporary"  # as named, but never written, and gone some time after its last consumer
SESSION = "session"  # the guaranteed messages of one MQTT session
SHARED = "shared"  # the guaranteed messages of one shared subscription
FOR_CLIENTS = (NAMED, TEMPORARY)  # what clients reach by its name


@dataclass(slots=True)
class CreateQueue:
    """Ask of the directory: make a queue, or find it. Answered with a QueueHandle once it is stored.

    Raises QueueExists when `must_be_new` and there is one by that name; DefinitionLost when that has lost its own
    definition. With `gives_back` it gets this one instead, and keeps its messages; UpdateRefused where it cannot now.
    """

    definition: QueueDefinition
    kind: str
    durable: bool
    must_be_new: bool = True
    gives_back: bool = False  # who asks knows what the queue is, and does not merely want one by that name


@dataclass(slots=True)
class DeclareQueue:
    """Ask of the directory: make the queue that somebody asked for; a template says what was left open.

    Answered with a QueueHandle. Raises QueueExists, QueueInvalid, QueuesExhausted; StoreRefused when the catalog could
    not be written; ClientDenied when the client's profiles do not allow the queue, or to subscribe to what it collects.

    A queue that a client declares is owned by its user, if it has one, and cannot be partitioned. A temporary queue is
    never written; it ends when it has been without a consumer for its `expires_unbound_s`, or, when that is 0, for the
    node's `queues.temporary_grace_s`. One that a client declared takes no other client, and ends at once when its
    client unbinds. Without a name it is anonymous: it is temporary, and gets a name that nobody can guess.
    """

    asked: dict[str, object]  # name, attributes and subscriptions, as they were given
    durable: bool | None = None  # None: as the template says, and durable without one
    rights: ClientRights | None = None  # of the client that asks; None: an administrator


@dataclass(slots=True)
class UpdateQueue:
    """Ask of the directory: change the definition of a queue. Answered with the new one once it is stored.

    `change` makes it from the queue as the changes before have left it; what it raises is the answer. Raises
    UpdateRefused for a change that cannot be made now, and PermissionDenied: with `modify-topic` a client may change
    the subscriptions, and with `delete` the attributes as well. Raises ClientDenied where the queue would collect what
    it does not now, and the client may not subscribe to.
    """

    name: str
    change: "Callable[[QueueHandle], QueueDefinition]"
    rights: ClientRights | None = None  # of the client that asks; None: an administrator, who may
    gives_back: bool = False  # the definition is the one that the queue had lost


@dataclass(slots=True)
class FindQueue:
    """Ask of the directory. Answered with a QueueHandle, or None.

    A client finds none of the broker's own queues, of sessions and subscriptions: what is in them is for their clients.
    If it wants to consume, a queue is made that definitions of virtual destinations call for. Raises ClientDenied where
    it may not receive guaranteed messages, not make queues, or not subscribe to what this one would collect.
    """

    name: str
    rights: ClientRights | None = None  # of the client that names the queue; None: an administrator, the broker itself
    consumes: bool = False  # the client wants to; its user owns what is made


@dataclass(slots=True)
class MakeNamedQueues:
    """Ask of the directory: make the queues that definitions name and that there are not. Answered with None."""


@dataclass(slots=True)
class DeleteQueue:
    """Ask of the directory: end a queue, its flows and its messages. Answered with whether there was one.

    Raises PermissionDenied for a client without the right to delete it.
    """

    name: str
    user: str | None = None  # the client that asks; None: an administrator or the broker itself, who may


@dataclass(slots=True)
class DefineConsumerQueues:
    """Ask of the directory: from now on these definitions call for queues. Answered with None."""

    definitions: VirtualDestinations
    are_made: bool  # those of virtual topics for their consumers; else administrators make them


@dataclass(slots=True)
class NotifyConsumers:
    """Router -> directory -> queue: tell your watcher who consumes."""

    name: str


@dataclass(slots=True)
class ListQueues:
    """Ask of the directory; answered with a list of QueueHandle by name."""


@dataclass(slots=True)
class SetQueueLimits:
    """Node -> directory: from now on queues slow their publishers down at these marks.

    Temporary ones that are made from now on wait so long for a consumer.
    """

    limits: PressureLimits
    temporary_grace_s: int


class UpdateRefused(Exception):
    """A queue cannot be changed like this as things stand. The text says what would have to change first."""


@dataclass(slots=True)
class QueueExpired:
    """Queue -> directory: nobody consumed from me for too long; end me."""

    name: str


@dataclass(slots=True)
class KeepQueues:
    """Node -> directory: the node stops. From now on no queue expires, for it is the node that ends their flows."""


class PermissionDenied(Exception):
    """A client has not the right that it would need. The text begins with `403 Permission Denied`."""


class QueuesExhausted(Exception):
    """There are as many temporary queues as the node takes."""


class QueueExists(Exception):
    """There is a queue by that name already."""


class DefinitionLost(QueueExists):
    """There is a queue by that name, with messages, whose definition was lost. The text says what operators can do."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"queue {name!r} is there with its messages, and its definition was lost: operators enable its ingress or"
            " egress, declare it in the configuration, or delete it"
        )


class QueueState(ABC):
    """The state of a queue, as far as others may ask about it. The queue's core implements it."""

    @abstractmethod
    def clients(self) -> set[str]:
        """Return the names of the clients that consume or browse the queue."""

    @abstractmethod
    def denial(self, client: str, user: str, needed: str) -> str:
        """Return why a client may not do what takes a level of rights; empty when it may."""

    @abstractmethod
    def is_partitioned(self) -> bool:
        """Return whether the queue has partitions by its present configuration."""


@dataclass(frozen=True, slots=True)
class QueueHandle:
    """A queue: its actor, what publishers need of it, and how it was declared."""

    name: str
    kind: str
    cell: ActorCell
    target: QueueTarget
    durable: bool
    definition: QueueDefinition
    state: QueueState
    definition_lost: bool = False  # the definition is one that the broker chose, until an operator decides


# --- templates ---


@dataclass(slots=True)
class PutTemplate:
    """Ask of the directory: keep a template. Answered with None once it is stored; StoreRefused when it cannot be.

    Raises TemplateExists when `must_be_new` and there is one by that name.
    """

    template: QueueTemplate
    must_be_new: bool


@dataclass(slots=True)
class DeleteTemplate:
    """Ask of the directory. Answered with whether there was one by that name; queues made from it stay as they are."""

    name: str


@dataclass(slots=True)
class ListTemplates:
    """Ask of the directory; answered with a list of QueueTemplate by name."""


class TemplateExists(Exception):
    """There is a template by that name already."""
