"""The part of a replica that decides who owns the broker: its lease, and what the replicas tell each other.

It has a thread of its own, with a connection to the servers, so that the key is renewed while the node is busy, and
while a checkpoint writes. A process whose node hangs must not keep the key for ever: then it ends itself.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar, final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from sluicegate.gateway.cluster.background import TaskEnded, watched
from sluicegate.gateway.cluster.log.servers import AGAIN_S, Servers
from sluicegate.gateway.cluster.membership.members import (
    AWAY,
    OWNER,
    STATE_S,
    Members,
    ReplicaState,
    decode_state,
    encode_state,
)
from sluicegate.gateway.cluster.membership.names import Names, ReplicaNames
from sluicegate.gateway.cluster.membership.survey import SUBJECT, encode_answer
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.views.errors import NotReady, Refused
from sluicegate.storage.errors import StorageError
from sluicegate.storage.replication.jetstream import stream_name
from sluicegate.storage.replication.ownership.bucket import BUCKET, NatsBucket
from sluicegate.storage.replication.ownership.candidate import Candidate
from sluicegate.storage.replication.ownership.clock import elapsed_s
from sluicegate.storage.replication.ownership.keys import ANY, UnreadableKey, decode_holder
from sluicegate.storage.replication.ownership.lease import Lease, Role, Stopped, Taken, times_of
from sluicegate.storage.replication.stream import StreamUnavailable
from sluicegate.storage.store.owner import LoopThread

ANSWER_S: Final = 2.0  # for the owner to say that it hands over
PROBLEM_S: Final = 5.0  # a refusal counts for so long: the key is asked for more often
PAUSED_S: Final = 5.0  # for so long a sleep of LOOK_S does not last
LOOK_S: Final = 0.1  # between two looks at the state here: a change of it is told at once
HUNG_EXIT: Final = 70

log = logging.getLogger("sluicegate.cluster")

_Result = TypeVar("_Result")


@final
class Ownership:
    """The lease of one replica and its thread. Methods are for the event loop of the process, where not said."""

    def __init__(
        self,
        config: Config,
        instance: str,
        *,
        is_caught_up: Callable[[], bool],
        state: Callable[[], ReplicaState],
        changed: Callable[[Taken | Stopped], None],
        asked: Callable[[str], None],
        removed: Callable[[], None],
        task_ended: TaskEnded,
    ) -> None:
        """`is_caught_up` and `state` are called on the thread, `task_ended` on any, the others on the loop here.

        `asked` is called when an operator wants the owner to hand over, with the name of a standby, or an empty one;
        `removed` from time to time while this replica is none of the broker's any more; `task_ended` when the key is
        not watched any more, for example.
        """
        cluster = config.cluster
        self._broker: Final = config.node.name
        self._me: Final = cluster.replica
        self._kill_s: Final = config.watchdog.kill_s
        self._is_caught_up: Final = is_caught_up
        self._state: Final = state
        self._changed: Final = changed
        self._asked: Final = asked
        self._removed: Final = removed
        self._task_ended: Final = task_ended
        self._loop: Final = asyncio.get_running_loop()
        self._thread: Final = LoopThread()
        self._servers: Final = Servers(config.node.name, cluster)
        self._lease: Final = Lease(cluster.replica, instance, (cluster.replica,), times_of(cluster.lease_ms / 1000))
        self._candidate: Candidate | None = None
        self._watching: Future[None] | None = None  # the key
        self._is_closed = False
        self._is_handing_over = False
        self._alive_s = time.monotonic()  # when the loop of the process ran last
        self.members: Final = Members(cluster.replicas, cluster.replica, instance)
        self.names: Final = ReplicaNames(config.node.name, cluster, read=self._names_read)
        self._problem = ""  # why the key could not be read or written last
        self._problem_s = float("-inf")

    async def join(self) -> None:
        """Connect to the servers, and return when this is one of the broker's replicas. Raises CannotStart."""
        await self._thread.result_of(self._servers.connect())
        await self._thread.result_of(self._servers.prepare_bucket())
        await self._thread.result_of(self.names.join(self._servers.client))

    async def open(self) -> None:
        """Begin to watch the key. `join` and `ReplicaSpool.open` have returned."""
        while True:
            try:
                await self._thread.result_of(self._listen(self._servers.client))
                break
            except nats.errors.Error as error:
                log.info("the NATS servers do not answer: %s; trying again", error)
            await asyncio.sleep(AGAIN_S)
        self._candidate = Candidate(
            self._lease,
            NatsBucket(self._servers.client),
            self._broker,
            elapsed_s=elapsed_s,
            is_caught_up=self._is_caught_up,
            changed=lambda change: self._on_loop(self._changed, change),
            failed=self._report,
        )
        self._watching = self._begin("lease", self._candidate.run())
        self._begin("messages to the other replicas", self._tell())
        self._begin("list of replicas", self.names.follow())

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> Future[None]:
        task = self._thread.begin(work)
        watched(name, task, self._task_ended)
        return task

    @property
    def is_cut_off(self) -> bool:
        """Whether the connection to the servers was closed for good, as after a refused login."""
        return not self._is_closed and self._servers.is_closed

    @property
    def problem(self) -> str:
        """Why the key cannot be read or written; empty if it can."""
        return self._problem if time.monotonic() - self._problem_s < PROBLEM_S else ""

    def serves(self) -> bool:
        """Return whether the replica may act as the owner now. For any thread."""
        return self._lease.serves(elapsed_s())

    def appended(self, sent_s: float) -> None:
        """Take that an append was stored that was sent then, by the clock of the lease.

        For any thread: at worst the lease ends sooner than it could.
        """
        self._lease.appended(sent_s)

    def alive(self) -> None:
        """Take that the loop of the process runs."""
        self._alive_s = time.monotonic()

    def give_up(self, epoch: int, reason: str) -> None:
        """Be the owner no more of that epoch because the log says so. One of a later epoch stays the owner."""
        candidate = self._candidate
        if candidate is not None:
            self._call(lambda: candidate.give_up(reason) if self._lease.epoch == epoch else None)

    async def hand_over(self, successor: str | None) -> None:
        """Have a standby take over at once, None: whichever replica comes; the node has stopped.

        Return when the key says so, or the lease is over.
        """
        candidate = self._candidate
        assert candidate is not None

        async def hand_over() -> None:
            if successor is None:
                candidate.release()
            else:
                candidate.hand_over(successor)
            while self._lease.role is Role.LEAVING:
                await asyncio.sleep(0.005)

        try:
            async with asyncio.timeout(self._lease.times.lease_s):
                await self._thread.result_of(hand_over())
        except ValueError as error:  # it is the owner no more, or the other one was taken out of the list meanwhile
            log.warning("not handed over: %s", error)
        except TimeoutError:
            log.warning("the NATS servers do not answer: another replica takes over when the lease is over")

    async def ask_owner(self, successor: str, broker: str = "") -> None:
        """Have the owner hand over, whoever it is: of this broker, or of another one. Raises NotReady, Refused."""
        subject = self._subject("handover", broker)
        answer = await self.asked_of_servers(lambda client: self._request(client, subject, successor.encode()))
        if answer:
            raise Refused(answer)

    async def asked_of_servers(self, ask: Callable[[Client], Coroutine[Any, Any, _Result]]) -> _Result:
        """Return what a coroutine returns that needs the connection. Raises NotReady while there is none."""
        if not self._servers.is_connected:
            raise NotReady(f"replica {self._me} starts, and the NATS servers do not answer; try again")
        return await self._thread.result_of(ask(self._servers.client))

    async def close(self) -> None:
        """End, and leave a key that this replica has to the lease of the others."""
        self._is_closed = True
        self._call(self.names.close)
        if self._candidate is not None:
            self._call(self._candidate.close)
            if self._watching is not None:
                with suppress(CancelledError, Exception):  # `task_ended` was told
                    await asyncio.wrap_future(self._watching)
            await self._thread.result_of(self._say(replace(self._state(), role=AWAY, caught_up=False)))
            await self._thread.result_of(self._servers.close())
        await asyncio.to_thread(self._thread.close)

    # --- on the thread ---

    async def _listen(self, client: Client) -> None:
        async def heard(message: Msg) -> None:
            state = decode_state(message.data)
            if state is not None:
                self.members.hear(state, time.monotonic())

        async def asked(message: Msg) -> None:
            if not self.serves():
                return  # the owner answers, and nobody if there is none
            successor = message.data.decode(errors="replace")
            now_s = time.monotonic()
            refusal = self._refusal_of(successor, now_s)
            self._is_handing_over = self._is_handing_over or not refusal
            if message.reply:
                await client.publish(message.reply, refusal.encode())
            if not refusal:
                self._on_loop(self._asked, successor)

        async def written(message: Msg) -> None:
            with suppress(UnreadableKey):
                handed_to = decode_holder(message.data, "a key").successor
                if self._candidate is not None and handed_to in (self._me, ANY):
                    self._candidate.look()

        async def surveyed(message: Msg) -> None:
            if message.reply:
                await client.publish(message.reply, encode_answer(self._broker, self._state()))

        await client.subscribe(SUBJECT, cb=surveyed)
        await client.subscribe(self._subject("state"), cb=heard)
        await client.subscribe(self._subject("handover"), cb=asked)
        await client.subscribe(f"$KV.{BUCKET}.{stream_name(self._broker)}", cb=written)

    def _names_read(self, names: Names) -> None:
        self.members.names = names
        self._lease.reorder(names)
        if self._me not in names:
            self._on_loop(self._removed)

    def _refusal_of(self, successor: str, now_s: float) -> str:
        """Return why the broker is not handed over to a standby, to any for an empty name; empty if it is."""
        state = self._state()
        if state.role != OWNER:
            return f"replica {state.name} is {state.role}; try again in a moment"
        if self._is_handing_over:
            return "the broker is being handed over already"
        present = self.members.present(now_s)
        if not successor:
            return "" if self.members.successor(now_s) is not None else "no standby is ready to take over"
        if successor == state.name:
            return f"replica {successor!r} is the owner already"
        other = present.get(successor)
        if other is None:
            return f"replica {successor!r} is not there"
        return (
            "" if other.caught_up else f"replica {successor!r} has not caught up: {other.problem or 'it reads the log'}"
        )

    async def _tell(self) -> None:
        """Tell the other replicas the state of this one, and end the process if its node hangs."""
        told: tuple[str, bool, str] | None = None
        told_s = float("-inf")
        while not self._is_closed:
            state, now_s = self._state(), time.monotonic()
            says = (state.role, state.caught_up, state.problem)
            if says != told or now_s - told_s >= STATE_S:
                told, told_s = says, now_s
                self.members.hear(state, now_s)
                await self._say(state)
            silent_s = time.monotonic() - self._alive_s
            if state.role == OWNER and 0 < self._kill_s < silent_s:  # while it takes over, it reads a spool
                log.critical("the node has not answered for %.0f s: this process ends", silent_s)
                os._exit(HUNG_EXIT)
            looked_s = time.monotonic()
            await asyncio.sleep(LOOK_S)
            if time.monotonic() - looked_s > PAUSED_S:  # the process was paused, and its node does not hang
                self.alive()

    async def _say(self, state: ReplicaState) -> None:
        with suppress(nats.errors.Error):
            await self._servers.client.publish(self._subject("state"), encode_state(state))

    async def _request(self, client: Client, subject: str, data: bytes) -> str:
        try:
            answer = await client.request(subject, data, timeout=ANSWER_S)
        except (nats.errors.Error, TimeoutError):
            return "no owner answers; try again when there is one"
        return answer.data.decode(errors="replace")

    def _report(self, error: StorageError) -> None:
        is_other = str(error) != self._problem and not isinstance(error, StreamUnavailable)
        if not self.problem or is_other:
            log.error("the key that says who owns the broker cannot be used: %s", error)
        self._problem, self._problem_s = str(error), time.monotonic()

    # --- between the two ---

    def _subject(self, what: str, broker: str = "") -> str:
        return f"sluicegate.{what}.{stream_name(broker or self._broker)}"

    def _on_loop(self, call: Callable[..., None], *given: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process ends
            self._loop.call_soon_threadsafe(call, *given)

    def _call(self, work: Callable[[], object]) -> None:
        async def run() -> None:
            work()

        with suppress(CancelledError):
            self._begin("change of the lease", run())
