"""A job of parts that publishes all of its rows or none: it stages, commits, and after a crash commits again.

Some attempts of parts are never named and some jobs never commit: no consumer may get their rows.
"""

import asyncio
from random import Random

from simulation.judge.targets import Message, Violation
from simulation.judge.truth import Truth
from sluicegate.actors.messages.staging import AbortStaged, CommitStaged, Stage, StagedCommitted
from sluicegate.gateway.node.node import Node
from sluicegate.messaging.bulk.staging import NOT_STAGED, StagingRefused
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import key_hash

PARTS_MAX, ATTEMPTS_MAX, ROWS_MAX = 3, 2, 5
COMMITS_SHARE = 0.8
AGAIN_S, TRIES_MAX = 1.0, 5
STAGING, COMMITTING, OVER = "staging", "committing", "over"


class Job:
    """One transaction, over all lives of the node."""

    def __init__(self, truth: Truth, name: str, topics: tuple[str, ...], rng: Random) -> None:
        self.state = STAGING
        self._truth = truth
        self._name = name
        self._commits = rng.random() < COMMITS_SHARE
        self._rows: dict[tuple[int, int], list[Message]] = {}  # by part and attempt
        for part in range(1 + rng.randrange(PARTS_MAX)):
            for attempt in range(1 + rng.randrange(ATTEMPTS_MAX)):
                self._rows[part, attempt] = [
                    truth.sent(name, f"k{rng.randrange(4)}", rng.choice(topics), 1, withheld=True)
                    for _ in range(1 + rng.randrange(ROWS_MAX))
                ]
        parts = {part for part, _ in self._rows}
        self._named = [(part, rng.choice([a for p, a in self._rows if p == part])) for part in sorted(parts)]
        self._order = rng.sample(sorted(self._rows), len(self._rows))  # in which its tasks come to their end

    async def run(self, node: Node) -> None:
        """Stage and commit, as far as it comes. Raises Violation."""
        try:
            for part, attempt in self._order:
                batches = [self._batch(message, node.services.clock.wall_ms()) for message in self._rows[part, attempt]]
                await node.default.staging.ask(Stage(self._name, part, attempt, batches))
        except StagingRefused:
            self._commits = False
        if not self._commits:
            await self._abort(node)
            return
        self.state = COMMITTING
        for part, attempt in self._named:
            for message in self._rows[part, attempt]:
                message.withheld = False
        await self._commit(node)

    async def go_on(self, node: Node) -> None:
        """The node has come back: commit again what may have been committed, give up the rest. Raises Violation."""
        if self.state == COMMITTING:
            for message in self._messages():
                message.sent_count += 1  # a crash may have undone the commit, and not what consumers saw of it
            await self._commit(node)
        elif self.state == STAGING:  # what was given up, and the node said so, is not there again
            await self._abort(node)

    def store_fails(self) -> None:
        """A row that the store refuses at first is published again: behind those after it, to who had it before."""
        if self.state == COMMITTING:
            for message in self._messages():
                message.sent_count, message.refused = 2, True

    async def _commit(self, node: Node) -> None:
        for _ in range(TRIES_MAX):
            if self._truth.course.store_faults:
                self.store_fails()
            try:
                committed: StagedCommitted = await node.default.staging.ask(CommitStaged(self._name, self._named))
            except StagingRefused as refusal:
                if refusal.code == NOT_STAGED:
                    raise Violation(f"{self._name} was staged, and is not any more: {refusal}") from refusal
                await asyncio.sleep(AGAIN_S)
                continue
            if committed.messages_count != len(self._messages()):
                raise Violation(f"{self._name} has {len(self._messages())} rows, and committed {committed}") from None
            for message in self._messages():
                self._truth.promised(message, 0)
            self.state = OVER
            return
        for message in self._messages():
            message.withheld = True
        await self._abort(node)

    async def _abort(self, node: Node) -> None:
        self._commits = False
        self.state = STAGING
        while self.state != OVER:
            try:
                if not await node.default.staging.ask(AbortStaged(self._name)):
                    raise Violation(f"{self._name} was never committed, and the node says that it was")
                self.state = OVER
            except StagingRefused:  # it is busy
                await asyncio.sleep(AGAIN_S)

    def _messages(self) -> list[Message]:
        return [message for place in self._named for message in self._rows[place]]

    def _batch(self, message: Message, wall_ms: int) -> MessageBatch:
        payload = b"%d|row" % message.number
        return MessageBatch(
            topic=message.topic,
            topics=None,
            payloads=[payload],
            headers=[Headers(partition_key=message.key, key_hash=key_hash(message.key))],
            qos=AT_LEAST_ONCE,
            retain=False,
            publisher=message.publisher,
            received_ms=wall_ms,
            payload_bytes=len(payload),
        )
