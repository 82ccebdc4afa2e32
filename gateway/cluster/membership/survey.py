"""All brokers of a cluster: which replicas each has, and what these say when they are asked.

A replica answers with its state, as it tells it to the others of its broker. Nothing is sent unless somebody asks.
"""

import asyncio
from typing import Any, Final, NamedTuple, final

import nats.errors
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from sluicegate.gateway.cluster.membership.members import OWNER, STANDBY, ReplicaState, decode_state, encode_state
from sluicegate.storage.replication.ownership.replica_list import ReplicaList, ReplicaLists

SUBJECT: Final = "sluicegate.survey"
ANSWERS_S: Final = 1.0  # for all replicas that run to answer


class Surveyed(NamedTuple):
    """One broker of the cluster."""

    replicas: ReplicaList
    states: dict[str, ReplicaState]  # of those that have answered, by name

    def owner(self) -> ReplicaState | None:
        """Return who owns the broker; of two the one of the later epoch."""
        owners = [each for each in self.states.values() if each.role == OWNER]
        return max(owners, key=lambda each: each.epoch, default=None)

    def preferred(self) -> str:
        """Return the replica that shall own the broker now: of those that could, the first in the list.

        Empty if the owner is to stay.
        """
        owner = self.owner()
        if owner is None:
            return ""
        for name in self.replicas.names:
            state = self.states.get(name)
            if name == owner.name:
                return ""
            if state is not None and state.role == STANDBY and state.caught_up:
                return name
        return ""


@final
class Survey:
    """The answers to one question, as they come."""

    def __init__(self, lists: list[ReplicaList]) -> None:
        self.brokers: Final = [Surveyed(each, {}) for each in lists]
        self._by_name: Final = {each.replicas.broker: each for each in self.brokers}

    def hear(self, data: bytes) -> None:
        """Take an answer; one of a replica that is in no list is passed over, and what is none."""
        answer = decode_answer(data)
        if answer is None:
            return
        broker, state = answer
        surveyed = self._by_name.get(broker)
        if surveyed is not None and state.name in surveyed.replicas.names:
            surveyed.states[state.name] = state

    @property
    def is_whole(self) -> bool:
        """Whether every replica has answered."""
        return all(len(each.states) == len(each.replicas.names) for each in self.brokers)


def encode_answer(broker: str, state: ReplicaState) -> bytes:
    """Return what a replica answers."""
    return b'{"broker":' + orjson.dumps(broker) + b',"state":' + encode_state(state) + b"}"


def decode_answer(data: bytes) -> tuple[str, ReplicaState] | None:
    """Return the broker and the state of an answer, None when it is none."""
    try:
        fields: Any = orjson.loads(data)
        broker, state = str(fields["broker"]), decode_state(orjson.dumps(fields["state"]))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return None if state is None else (broker, state)


async def survey(client: Client) -> list[Surveyed]:
    """Ask all replicas of the cluster; return what is known after a second at most.

    Raises StreamUnavailable, StreamRefused and UnreadableKey.
    """
    asked = Survey(await ReplicaLists(client).all())
    is_whole = asyncio.Event()

    async def heard(message: Msg) -> None:
        asked.hear(message.data)
        if asked.is_whole:
            is_whole.set()

    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox, cb=heard)
    try:
        await client.publish(SUBJECT, b"", reply=inbox)
        async with asyncio.timeout(ANSWERS_S):
            await is_whole.wait()
    except (nats.errors.Error, TimeoutError):
        pass  # those that have not answered are away
    await subscription.unsubscribe()
    return asked.brokers
