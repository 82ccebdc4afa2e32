"""The directory of queues: creates, finds, changes and deletes them, and stores their definitions in the catalog.

A durable queue exists when the store has its definition; the request to create it is answered then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sluicegate.actors.messages.data import Confirmed, PublishFailed, Resume, StoreRefused
from sluicegate.actors.messages.directory import (
    FOR_CLIENTS,
    NAMED,
    TEMPORARY,
    CreateQueue,
    DeclareQueue,
    DefineConsumerQueues,
    DefinitionLost,
    DeleteQueue,
    FindElsewhere,
    FindQueue,
    KeepQueues,
    ListQueues,
    LocalQueue,
    MakeNamedQueues,
    NotifyConsumers,
    QueueExpired,
    QueueHandle,
    QueuesExhausted,
    ReconfigureMore,
    SetQueueLimits,
    UpdateQueue,
    UpdateRefused,
)
from sluicegate.actors.messages.queues import Reconfigure, RescaleAdvanced, RescaleFinished
from sluicegate.actors.messages.router import SetQueueTopics
from sluicegate.actors.messages.spool import PurgeFromStore, RegisterPartition, WriteTables
from sluicegate.actors.queues.assembly import QueueServices, assemble_queue, facts_of
from sluicegate.actors.queues.directory.consumer_queues import ConsumerQueues, all_done, found_later
from sluicegate.actors.queues.directory.lost_definitions import (
    OwnQueue,
    check_decides,
    description_of_lost,
    restoring_update,
    stays_lost,
    with_own_definition,
)
from sluicegate.actors.queues.directory.moves import is_shut
from sluicegate.actors.queues.directory.permissions import (
    QueueUpdates,
    check_changed,
    check_made,
    check_permission,
    check_update,
    is_there_for,
)
from sluicegate.actors.queues.directory.rescale_plans import RescalePlans
from sluicegate.actors.queues.directory.table import QueueTable, exists_later
from sluicegate.actors.queues.directory.templates import TemplateRequests, answer_deletion
from sluicegate.actors.queues.overview import last_overview
from sluicegate.actors.queues.rescale import resume_rescale
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.observability.events import (
    VPN_DEFINITION_LOST,
    VPN_DEFINITION_LOST_CLEAR,
    VPN_QUEUE_CREATED,
    VPN_QUEUE_DELETED,
    EventKind,
    as_word,
)
from sluicegate.messaging.partitions.recovery import StoredPartition
from sluicegate.messaging.queues.attributes import DELETE
from sluicegate.messaging.queues.definition import (
    QueueDefinition,
    definition_from_dict,
    is_named,
    topics_of,
)
from sluicegate.messaging.queues.moves import QueueMove
from sluicegate.messaging.queues.template import QueueTemplates
from sluicegate.messaging.topics.syntax import ANONYMOUS_QUEUES, made_up_name, queue_topic_filter
from sluicegate.storage.catalog.partition_owners import missing_rows, owner_rows, owner_rows_deleted
from sluicegate.storage.catalog.queues import (
    StoredQueue,
    queue_row,
    queue_row_deleted,
    stored_queues,
    stored_templates,
)
from sluicegate.storage.interface import TableWrite

RECONFIGURED_PER_TURN = 32  # queues: about a millisecond of the loop
MADE_AT_ONCE = 32  # queues that a definition names
TEMPORARY_QUEUES_MAX = 10_000  # each may use memory; Solace's largest brokers take as many clients on one queue


class QueueDirectory(LoopActor):
    """All queues of a message VPN."""

    def __init__(
        self,
        cell: ActorCell,
        *,
        services: QueueServices,
        router: ActorCell,
        catalog: dict[bytes, bytes],
        owners: Mapping[bytes, bytes],
        lost: Sequence[StoredQueue],
        own_queue: OwnQueue,
        stored: dict[int, StoredPartition],
        was_clean: bool,
    ) -> None:
        super().__init__(cell)
        self._services = services
        self._router = router
        self._spool: Address = services.spool
        self._queues = QueueTable(services.clients.owns)
        self._catalog = catalog
        self._owners = owners
        self._lost = lost
        self._own_queue = own_queue
        self._stored = stored
        self._was_clean = was_clean
        self._templates = QueueTemplates(stored_templates(catalog))
        self._lets_queues_expire = True
        self._rescales = RescalePlans(services)
        self._consumer_queues = ConsumerQueues(self._templates)
        self._elsewhere: Callable[[str], QueueHandle | None] = _nowhere
        self._tokens = 0
        self._waiting: dict[int, Callable[[str], None]] = {}
        self._updates = QueueUpdates(cell)
        self._to_reconfigure: list[str] = []  # queues that have not been told of changed limits
        self._go_on_later: set[str] = set()  # of these, queues whose rescale has advanced meanwhile
        self.handlers = {
            CreateQueue: self._create,
            DeclareQueue: self._declare,
            FindQueue: self._find,
            FindElsewhere: self._set_elsewhere,
            MakeNamedQueues: self._make_named_queues,
            DefineConsumerQueues: lambda message: self._consumer_queues.define(
                message.definitions, are_made=message.are_made, is_home=message.is_home
            ),
            DeleteQueue: self._delete,
            NotifyConsumers: self._notify_consumers,
            QueueExpired: self._expired,
            KeepQueues: self._keep,
            UpdateQueue: self._update,
            SetQueueLimits: self._set_limits,
            ReconfigureMore: lambda _: self._reconfigure_some(),
            RescaleAdvanced: lambda message: self._go_on(message.queue_name),
            RescaleFinished: self._rescale_finished,
            ListQueues: lambda _: [handle for _, handle in sorted(self._queues.by_name.items())],
            Confirmed: lambda message: self._waiting.pop(message.token)(""),
            PublishFailed: lambda message: self._waiting.pop(message.token)(message.reason),
            **TemplateRequests(self._templates, self._write).handlers(),
            **self.handlers_of_moves(),
        }

    @property
    def queues_count(self) -> int:
        """The number of queues, of all kinds."""
        return len(self._queues.by_name)

    def accepted_counts(self) -> dict[str, int]:
        """Return how many messages queues have taken, by name, without those that have taken none."""
        queues = self._queues.by_name.items()
        return {name: count for name, handle in queues if (count := handle.target.gate.accepted_count)}

    def on_start(self) -> None:
        """Restore the queues of the catalog, and those whose definitions are lost."""
        rows: list[TableWrite] = []
        lost = [with_own_definition(row, self._own_queue) for row in self._lost]
        for row in (*stored_queues(self._catalog), *lost):
            handle = assemble_queue(
                self._services,
                parent=self.cell,
                definition=row.definition,
                kind=row.kind,
                durable=True,
                partition_ids=row.partition_ids,
                slots=row.slots,
                rescale=row.rescale,
                stored=self._stored,
                was_clean=self._was_clean,
                definition_lost=row.definition_lost,
                move=row.move,
            )
            if is_shut(row.move):
                handle.target.gate.set_ingress_of_move(enabled=False)
            self._queues.put(handle)
            rows += missing_rows(row, self._owners)
            if row.rescale is not None:
                resume_rescale(self._services.cores[handle.name], row.rescale)
            self._attract(handle)
        rows += [queue_row(row) for row in lost]
        if rows:  # if the store refuses, the next start tries again
            self._write(rows, lambda _: None, takes_ids=bool(lost))
        self._catalog, self._owners, self._lost, self._stored = {}, {}, [], {}

    def report_lost_definitions(self) -> None:
        """Emit events for the queues whose definitions are lost, with what an operator can do."""
        for handle in self._queues.by_name.values():
            if handle.definition_lost:
                self._services.events.emit(VPN_DEFINITION_LOST, description_of_lost(handle))

    def _declare(self, message: DeclareQueue) -> LoopFuture[LocalQueue]:
        """Complete the requested definition, and create the queue."""
        asked, rights = dict(message.asked), message.rights
        is_anonymous = not asked.get("name") and (rights is not None or message.durable is False)
        if is_anonymous:
            asked["name"] = made_up_name(ANONYMOUS_QUEUES, self._services.broker, self.runtime.rng.getrandbits(128))
        values, durable = self._templates.fill_in(asked, False if is_anonymous else message.durable)
        if rights is not None:
            values["owner"] = rights.username
            self._check_endpoint(rights)
        wildcards = self._consumer_queues.may_have_wildcards(values.get("name"))
        definition = definition_from_dict(values, reserved_name=is_anonymous, wildcards=wildcards, durable=durable)
        if rights is not None:
            check_made(rights, definition, self._consumer_queues.topics_of_queue(definition), message.asked)
        if durable:
            return self._create(CreateQueue(definition, NAMED, durable=True))
        if self._queues.temporary_count >= TEMPORARY_QUEUES_MAX:
            text = f"503 No More Non-Durable Queue or Topic Endpoint: there are {TEMPORARY_QUEUES_MAX} temporary queues"
            raise QueuesExhausted(text)
        return self._create(CreateQueue(definition, TEMPORARY, durable=False), owner=rights)

    def _check_endpoint(self, rights: ClientRights) -> None:
        """Raise ClientDenied unless a client may create one more queue."""
        self._services.clients.check_endpoint(rights, self._queues.owned_by(rights.username), self.queues_count)

    def _create(
        self, message: CreateQueue, *, owner: ClientRights | None = None, move: QueueMove | None = None
    ) -> LoopFuture[LocalQueue]:
        answer: LoopFuture[LocalQueue] = LoopFuture()
        name = message.definition.config.name
        found = self._queues.by_name.get(name)
        if found is not None and found.definition_lost:
            return self._found_lost(found, message)
        if found is not None:
            made = self._queues.making.get(name, answer)
            if made is answer:
                answer.set(found)
            return exists_later(made) if message.must_be_new else made
        topics_of(message.definition)  # a bad subscription is refused before anything is created
        count = max(1, message.definition.config.partition_count)
        partition_ids = self._services.partition_ids.take(count)
        handle = self._assemble(message.definition, message.kind, message.durable, partition_ids, owner, move)
        if not message.durable:
            self._emit(VPN_QUEUE_CREATED, handle, "created")
            self._attract(handle, lambda: answer.set(handle))
            return answer
        for partition in handle.target.partitions:
            self._spool.post(RegisterPartition(partition.partition_id, partition.address, 1))

        def stored(reason: str) -> None:
            if not self._queues.has(handle):
                gone = StoreRefused(f"queue {name!r} was deleted while it was being made")
                answer.set_exception((StoreRefused, gone, None))
                return
            del self._queues.making[name]
            if reason:
                self._end(handle)
                answer.set_exception((StoreRefused, StoreRefused(reason), None))
            else:
                how = "created" if move is None else f"is being moved here from broker {as_word(move.broker)}"
                self._emit(VPN_QUEUE_CREATED, handle, how)
                self._attract(handle, lambda: answer.set(handle))

        self._queues.making[name] = answer
        self._write(self._rows(handle), stored, takes_ids=True)
        return answer

    def _found_lost(self, found: LocalQueue, message: CreateQueue) -> LoopFuture[LocalQueue]:
        """Restore the definition of a queue, if the asker knows it."""
        answer: LoopFuture[LocalQueue] = LoopFuture()
        update = restoring_update(found, message)
        if update is None and message.must_be_new:
            raise DefinitionLost(found.name)
        if update is None:
            answer.set(found)
            return answer

        def updated(done: LoopFuture[QueueDefinition]) -> None:
            error = done.error()
            if error is None:
                answer.set(self._queues.by_name[found.name])
            else:
                answer.set_exception((type(error), error, None))

        self._update(update).then(updated)
        return answer

    def _set_elsewhere(self, message: FindElsewhere) -> None:
        self._elsewhere = message.find

    def _find(self, message: FindQueue) -> LoopFuture[LocalQueue | None] | QueueHandle | None:
        found, rights = self._queues.by_name.get(message.name), message.rights
        if found is not None and not (message.anywhere and found.is_received):
            return found if is_there_for(rights, found) else None
        elsewhere = self._elsewhere(message.name) if message.anywhere else None
        if elsewhere is not None:
            if rights is not None:
                rights.check_receiving()
            return elsewhere
        if rights is None or not message.consumes or not self._consumer_queues.calls_for(message.name):
            return self._queues.gone(message.name, None)
        rights.check_receiving()
        topics = self._consumer_queues.topics_of(message.name)
        rights.check_collecting(topics, len(topics))
        self._check_endpoint(rights)
        return self._make(message.name, rights.username)

    def _make(self, name: str, owner: str) -> LoopFuture[LocalQueue | None] | None:
        made = self._consumer_queues.definition(name, owner)
        return None if made is None else found_later(name, self._create(made))

    def _make_named_queues(self, _: MakeNamedQueues) -> LoopFuture[None]:
        names = [name for name in self._consumer_queues.named_here() if name not in self._queues.by_name]
        answer: LoopFuture[None] = LoopFuture()

        def make_some(_: object) -> None:
            some = names[:MADE_AT_ONCE]
            del names[:MADE_AT_ONCE]
            if not some:
                answer.set(None)
                return
            try:
                made = [each for each in [self._make(name, "") for name in some] if each is not None]
            except Exception:  # later parts are made in a callback, which must not raise
                answer.set_exception()
                return
            all_done(made).then(make_some)

        make_some(None)
        return answer

    def _update(self, message: UpdateQueue) -> LoopFuture[QueueDefinition]:
        name = message.name
        if self._updates.is_under_way(name):
            return self._updates.wait(message)
        answer: LoopFuture[QueueDefinition] = LoopFuture()
        if name in self._queues.making:  # a queue that the store refuses must leave no row behind
            self._queues.making[name].then(lambda _: self.cell.ask(message).pass_on(answer))
            return answer
        handle = self._queues.by_name.get(name)
        if handle is None:
            raise UpdateRefused(f"the queue {name!r} was deleted meanwhile")
        if handle.move is not None:
            raise UpdateRefused(handle.move.refusal(name))
        definition = message.change(handle)
        config = definition.config
        if message.rights is not None:
            check_decides(handle, message.rights.username)
            check_changed(message.rights, handle, definition)
        check_update(handle, config)
        if max(1, config.partition_count) < max(1, handle.definition.config.partition_count):
            self._check_no_readers(handle)
        topics_of(definition)
        is_lost = stays_lost(handle, config) and not message.gives_back
        changed = replace(handle, definition=definition, definition_lost=is_lost)
        planned = self._rescales.plan(changed)
        self._updates.begin(name)

        answer.then(lambda _: self._update_ended(name))

        def stored(reason: str) -> None:
            if reason:
                self._rescales.drop(changed, planned)
                answer.set_exception((StoreRefused, StoreRefused(reason), None))
                return
            if not self._queues.has(handle):
                gone = UpdateRefused(f"queue {name!r} was deleted meanwhile")
                answer.set_exception((UpdateRefused, gone, None))
                return
            self._queues.put(changed)
            self._emit_if_decided(handle, is_lost=is_lost)
            self._rescales.begin(changed, planned)
            handle.cell.inbox.post(Reconfigure(config))
            self._attract(changed, lambda: answer.set(definition))

        if handle.durable:
            self._write(self._rows(changed, first_only=planned is None), stored, takes_ids=True)
        else:
            stored("")
        return answer

    def handlers_of_moves(self) -> dict[type, Callable[[Any], Any]]:
        """Return who handles what is asked about queues that move; none move within one broker."""
        return {}

    def _delete(self, message: DeleteQueue) -> LoopFuture[bool] | bool:
        handle = self._queues.by_name.get(message.name)
        if handle is None:
            return self._queues.gone(message.name, False)
        if message.user is not None:
            check_decides(handle, message.user)
            check_permission(handle, message.user, DELETE)
        if handle.move is not None:
            raise UpdateRefused(handle.move.refusal(handle.name))
        return self._delete_queue(handle)

    def _delete_queue(self, handle: LocalQueue) -> LoopFuture[bool] | bool:
        rows = [queue_row_deleted(handle.name), *owner_rows_deleted(self._rescales.stored_queue(handle).partition_ids)]
        self._end(handle)
        self._emit(VPN_QUEUE_DELETED, handle, "deleted")
        self._emit_if_decided(handle, is_lost=False)
        if not handle.durable:
            return True
        deleted = self._queues.begin_deleting(handle.name)
        self._write(rows, partial(answer_deletion, deleted), until_done=True)
        return deleted

    def _notify_consumers(self, message: NotifyConsumers) -> None:
        handle = self._queues.by_name.get(message.name)
        if handle is not None:
            handle.cell.inbox.post(message)

    def _expired(self, message: QueueExpired) -> None:
        handle = self._queues.by_name.get(message.name)
        if self._lets_queues_expire and (handle is None or handle.move is None):
            self._delete(DeleteQueue(message.name))

    def _keep(self, _: KeepQueues) -> None:
        self._lets_queues_expire = False

    def _emit(self, kind: EventKind, handle: LocalQueue, what: str) -> None:
        if is_named(handle.name):
            self._services.events.emit(kind, f"Queue {as_word(handle.name)} {what}")

    def _emit_if_decided(self, handle: LocalQueue, *, is_lost: bool) -> None:
        """Emit an event when a queue with a lost definition has got one."""
        if handle.definition_lost and not is_lost:
            text = f"What becomes of queue {as_word(handle.name)}, whose definition was lost, is decided"
            self._services.events.emit(VPN_DEFINITION_LOST_CLEAR, text)

    def _set_limits(self, message: SetQueueLimits) -> None:
        self._services.temporary_grace_s = message.temporary_grace_s
        if not self._services.pressure.take_over(message.limits):
            return
        is_under_way = bool(self._to_reconfigure)
        self._to_reconfigure = list(self._queues.by_name)  # those that are created from now on have the new limits
        if not is_under_way:
            self._reconfigure_some()

    def _reconfigure_some(self) -> None:
        """Have some queues take over changed limits, and the others in turns of their own: there may be thousands."""
        some = self._to_reconfigure[-RECONFIGURED_PER_TURN:]
        del self._to_reconfigure[-RECONFIGURED_PER_TURN:]
        for name in some:
            handle = self._queues.by_name.get(name)
            if handle is not None:
                handle.cell.inbox.post(Reconfigure(handle.definition.config))
        if self._to_reconfigure:
            self.cell.inbox.post(ReconfigureMore())

    def _check_no_readers(self, handle: LocalQueue) -> None:
        """Raise UpdateRefused when retiring partitions would take messages along that are kept for readers."""
        if self._services.cores[handle.name].retention.on() or self._services.cursors.of(handle.name):
            text = (
                f"partition_count stays at least {handle.definition.config.partition_count} while messages are kept for"
                " readers: set retention_time_s and retention_size_mb to 0, and delete the durable cursors, first"
            )
            raise UpdateRefused(text)

    def _rescale_finished(self, message: RescaleFinished) -> None:
        handle = self._queues.by_name.get(message.queue_name)
        if handle is not None and handle.durable:
            for partition_id in message.retired_ids:
                self._spool.post(PurgeFromStore(partition_id))
            self._write(owner_rows_deleted(message.retired_ids), lambda _: None, until_done=True)
        self._go_on(message.queue_name)

    def _go_on(self, name: str) -> None:
        """Store the progress of a rescale, and begin the next one if the count was changed meanwhile."""
        handle = self._queues.by_name.get(name)
        if handle is None or self._rescales.pending(name) is not None:
            return
        if self._updates.is_under_way(name):  # a row written now would restore the former definition
            self._go_on_later.add(name)
            return
        planned = self._rescales.plan(handle)
        if planned is not None:  # a change of the definition is stored after the plan, whose row has the present one
            self._updates.begin(name)

        def stored(_: str) -> None:
            if planned is not None:
                self._rescales.begin(handle, planned)
                self._update_ended(name)

        if handle.durable:
            self._write(self._rows(handle), stored, takes_ids=True, until_done=True)
        else:
            stored("")

    def _update_ended(self, name: str) -> None:
        """Handle a change that was stored, or refused; work that waits for it follows when it is in force."""
        self._updates.ended(name)
        if name in self._go_on_later:
            self._go_on_later.discard(name)
            self.cell.inbox.post(RescaleAdvanced(name))

    def _end(self, handle: LocalQueue) -> None:
        """End a queue: no message reaches it any more, and its flows and messages are gone."""
        self._services.gone.add(handle.name, last_overview(self._services.cores.pop(handle.name)))
        self._queues.remove(handle.name)
        del self._services.ways.targets[handle.name]
        self._rescales.drop(handle, self._rescales.pending(handle.name))
        self._router.inbox.post(SetQueueTopics(handle.target, [], []))
        handle.target.gate.close()
        for publisher in handle.target.pressure.close():
            publisher.post(Resume())
        handle.cell.stop()
        if handle.durable:
            for partition in handle.target.partitions:
                self._spool.post(PurgeFromStore(partition.partition_id))

    def _assemble(
        self,
        definition: QueueDefinition,
        kind: str,
        durable: bool,
        partition_ids: list[int],
        owner: ClientRights | None = None,
        move: QueueMove | None = None,
    ) -> LocalQueue:
        handle = assemble_queue(
            self._services,
            parent=self.cell,
            definition=definition,
            kind=kind,
            durable=durable,
            partition_ids=partition_ids,
            stored=self._stored,
            was_clean=self._was_clean,
            owner=owner,
            move=move,
        )
        self._queues.put(handle)
        return handle

    def _attract(self, handle: LocalQueue, done: Callable[[], None] = lambda: None) -> None:
        if handle.is_received:
            done()
            return
        filters, exceptions = topics_of(handle.definition)
        if handle.kind in FOR_CLIENTS:
            filters.append(queue_topic_filter(handle.name))
        before, facts = handle.target.facts, facts_of(handle)
        if facts is not None and before is not None:  # what has changed says nothing of the room
            facts = facts._replace(is_full=before.is_full and handle.target.gate.usage_threshold.is_raised)
        handle.target.facts = facts
        if filters:
            asked = self._router.ask(SetQueueTopics(handle.target, filters, exceptions, handle.definition.selector))
            asked.then(lambda _: done())
        else:
            done()

    def _rows(self, handle: LocalQueue, *, first_only: bool = False) -> list[TableWrite]:
        """Return the rows of a queue; with `first_only` without those that never change."""
        stored = self._rescales.stored_queue(handle)
        return [queue_row(stored), *owner_rows(stored, first_only=first_only)]

    def _write(
        self, rows: list[TableWrite], done: Callable[[str], None], *, takes_ids: bool = False, until_done: bool = False
    ) -> None:
        """Have rows of this message VPN written, together with ids that were taken for them."""
        writes = [row.under(self._services.row_prefix) for row in rows]
        if takes_ids:
            writes.append(self._services.partition_ids.row())
        self._tokens += 1
        self._waiting[self._tokens] = done
        self._spool.post(WriteTables(writes, self.cell.inbox, self._tokens, until_done))


def _nowhere(_: str) -> QueueHandle | None:
    """Return nothing: there are no links."""
    return None
