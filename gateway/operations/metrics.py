"""The samples of a node: one for each row of `gateway.observability.metrics.table.METRICS` that has a value."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sluicegate.actors.messages.directory import LocalQueue
from sluicegate.actors.messages.queues import QueueOverview, QueueTotals
from sluicegate.actors.messages.readers import CursorOverview
from sluicegate.actors.messages.staging import StagingOverview
from sluicegate.actors.runtime.runtime import ActorOverview, EndedActors
from sluicegate.actors.spool.backups import BackupActor
from sluicegate.actors.spool.health import FAILURES
from sluicegate.gateway.build import VERSION
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.observability.statistics import ReaderBatches
from sluicegate.gateway.operations.queues.views import cursor_view
from sluicegate.gateway.provisioning.bridges import Bridges
from sluicegate.gateway.provisioning.queues import LINK_PREFIX
from sluicegate.messaging.message.outcomes import OUTCOMES
from sluicegate.messaging.message.refusals import REFUSAL_COUNTERS, REFUSED_NO_MATCH
from sluicegate.messaging.observability.latency import LatencyHistogram
from sluicegate.messaging.queues.definition import is_named
from sluicegate.messaging.routing.retained_messages import RetainedMessages
from sluicegate.protocols.amqp.datapath.transaction import TransactionAccounts
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.rest.point import RestDeliveryPoint
from sluicegate.protocols.transport.listeners import Listener

SESSIONS: Final = "#sessions"  # the label of the broker's own queues


@dataclass(frozen=True, slots=True)
class VpnFigures:
    """What the actors of a message VPN report about themselves."""

    vpn: MessageVpn
    queues: list[tuple[LocalQueue, QueueOverview]]
    cursors: list[CursorOverview]
    staging: StagingOverview


def samples_of(node: Node, vpns: list[VpnFigures]) -> list[Sample]:
    """Return everything that is to be seen of a node now.

    A queue that was deleted since it was asked is among those that are gone, and not counted twice.
    """
    vpns = [replace(each, queues=[one for one in each.queues if not one[0].cell.is_stopped()]) for each in vpns]
    return [
        Sample("sluicegate_build_info", 1, (VERSION,)),
        Sample("sluicegate_ready", 1 if node.ready and not node.services.spool_gate.blocked else 0),
        *_servers(node),
        *_logins(node),
        *[sample._replace(vpn=figures.vpn.name) for figures in vpns for sample in _of_vpn(figures)],
        *_links(node),
        *_losses(node, vpns),
        *_amqp_transactions(node.amqp.transactions),
        *_spool(node),
        *_backups(node),
        *_events(node),
        *_traces(node),
        *_actors([root.overview() for root in node.services.runtime.roots], node.services.runtime.ended),
    ]


def _servers(node: Node) -> Iterator[Sample]:
    paused_count = slow_count = 0
    for server in node.servers:
        connections = server.open_connections()
        paused_count += sum(
            1 for each in connections if each.read_control is not None and each.read_control.waits_for_a_destination()
        )
        slow_count += sum(1 for each in connections if each.is_writing_paused)
        yield from _protocol(server.name, server.counters, server.clients_count(), server.listeners)
        forwarding = server.forwarding
        if forwarding is not None:
            yield Sample("sluicegate_connections_passed_total", forwarding.passed_count, (server.name, "socket"))
            yield Sample("sluicegate_connections_passed_total", forwarding.relayed_count, (server.name, "relay"))
            yield Sample("sluicegate_connections_relayed", len(forwarding.relays), (server.name,))
    for listener, validity in node.certificates.items():
        yield Sample("sluicegate_certificate_not_before_timestamp_seconds", validity.begins_s, (listener,))
        yield Sample("sluicegate_certificate_not_after_timestamp_seconds", validity.ends_s, (listener,))
    yield Sample("sluicegate_flow_compression_saved_bytes_total", node.flow.counters.saved_received, ("received",))
    yield Sample("sluicegate_flow_compression_saved_bytes_total", node.flow.counters.saved_sent, ("sent",))
    for status, count in node.http.error_responses.items():
        yield Sample("sluicegate_http_error_responses_total", count, (str(status),))
    yield Sample("sluicegate_publishers_paused", paused_count)
    yield Sample("sluicegate_slow_subscribers", slow_count)
    yield Sample("sluicegate_unfinished_bytes", int(node.services.unfinished.used_bytes))
    yield Sample("sluicegate_unfinished_limit_bytes", int(node.services.unfinished.bytes_max))
    yield Sample("sluicegate_unfinished_ended_total", node.services.unfinished.ended_count)
    yield Sample("sluicegate_message_bytes", int(node.services.memory.used_bytes))
    yield Sample("sluicegate_delivered_unacked_messages", int(node.services.credit.used))
    if node.services.limits is not None:
        yield Sample("sluicegate_broker_limits_unshared_total", node.services.limits.unshared_count)
        yield Sample("sluicegate_broker_spool_quota_bytes", node.services.spool_gate.held_bytes)


def _logins(node: Node) -> Iterator[Sample]:
    checks, refused = node.services.password_checks, "sluicegate_logins_refused_total"
    yield Sample("sluicegate_logins_checked_total", checks.checked_count)
    yield Sample("sluicegate_logins_waiting", checks.waiting_count)
    yield Sample(refused, checks.refused_count, ("busy",))
    yield Sample(
        refused, node.services.attempts.refused_count + node.operators.attempts.refused_count, ("failed_before",)
    )
    yield from node.operator_ports.samples()


def _of_vpn(figures: VpnFigures) -> Iterator[Sample]:
    vpn = figures.vpn
    for reason, count in vpn.other_servers.sent_counts.items():
        yield Sample("sluicegate_mqtt_clients_redirected_total", count, (reason,))
    for reason, count in vpn.clients.denials.counts.items():
        yield Sample("sluicegate_clients_denied_total", count, (reason,))
    for outcome, count in vpn.external.outcomes().items():
        yield Sample("sluicegate_external_logins_total", count, (outcome,))
    for outcome, count in vpn.token_keys.counts().items():
        yield Sample("sluicegate_token_keys_fetches_total", count, (outcome,))
    if (age_s := vpn.token_keys.age_s()) is not None:
        yield Sample("sluicegate_token_keys_age_seconds", age_s)
    for (rule, outcome), count in vpn.payload_rules.counts.items():
        yield Sample("sluicegate_payload_rule_messages_total", count, (outcome, rule))
    if vpn.payload_rules.rules:
        yield Sample("sluicegate_payload_rules_stale", vpn.payload_rules.stale_count)
    yield Sample("sluicegate_sessions", vpn.sessions_count)
    yield Sample("sluicegate_sessions_kept", vpn.session_quota.kept_count)
    yield Sample("sluicegate_sessions_bytes", vpn.session_quota.usage_bytes)
    yield Sample("sluicegate_subscriptions_bytes", vpn.space.subscriptions_bytes)
    yield Sample("sluicegate_http_flows", vpn.http_flows.count)
    yield _latencies("sluicegate_publish_to_delivery_seconds", vpn.gone_queues.latencies, ())
    yield Sample("sluicegate_subscriptions", vpn.space.subscriptions_count)
    yield from _retained(vpn.space.retained)
    yield from _queues(figures.queues)
    yield from _totals((SESSIONS,), vpn.gone_queues.sessions)
    yield from _cursors(figures.cursors)
    yield from reader_samples(vpn.reader_batches)
    yield from _transactions(figures.staging)
    yield from _rest_delivery_points(vpn.rest.running.values())
    yield from _bridges(vpn.bridges)


def _latencies(name: str, found: LatencyHistogram, labels: tuple[str, ...]) -> Sample:
    return Sample(name, found.sum_ms / 1000, labels, counts=found.counts())


def _retained(retained: RetainedMessages) -> Iterator[Sample]:
    yield Sample("sluicegate_retained_messages", retained.count)
    yield Sample("sluicegate_retained_bytes", int(retained.usage_bytes))
    yield Sample("sluicegate_retained_limit_bytes", int(retained.usage_bytes_max))
    tombstones = retained.tombstones
    yield Sample("sluicegate_retained_deletions", tombstones.count)
    yield Sample("sluicegate_retained_deletions_forgotten_total", tombstones.expired_count, ("age",))
    yield Sample("sluicegate_retained_deletions_forgotten_total", tombstones.dropped_count, ("limit",))
    for counts in (retained.refused, retained.not_retained):
        for verdict, count in counts.items():
            yield Sample("sluicegate_retained_refused_total", count, (REFUSAL_COUNTERS[verdict],))


def _protocol(
    name: str, counters: ProtocolCounters, connections_count: int, listeners: Mapping[str, Listener]
) -> Iterator[Sample]:
    yield Sample("sluicegate_connections", connections_count, (name,))
    yield Sample("sluicegate_connections_opened_total", counters.connected, (name,))
    for reason, count in counters.refused.items():
        yield Sample("sluicegate_connections_refused_total", count, (name, reason))
    over_limit = sum(listener.refused_count for listener in listeners.values())
    yield Sample("sluicegate_connections_refused_total", over_limit, (name, "max_connections"))
    beyond_files = sum(listener.beyond_files_count for listener in listeners.values())
    yield Sample("sluicegate_connections_refused_total", beyond_files, (name, "open_files"))
    handshakes = sum(listener.handshake_failed_count for listener in listeners.values())
    yield Sample("sluicegate_connections_refused_total", handshakes, (name, "tls_handshake_failed"))
    for reason, count in counters.violated.items():
        yield Sample("sluicegate_connections_failed_total", count, (name, reason))
    yield _latencies("sluicegate_publish_to_confirmation_seconds", counters.confirmations, (name,))
    yield Sample("sluicegate_messages_received_total", counters.messages_received, (name,))
    yield Sample("sluicegate_messages_sent_total", counters.messages_sent, (name,))
    yield Sample("sluicegate_bytes_received_total", counters.bytes_received, (name,))
    yield Sample("sluicegate_bytes_sent_total", counters.bytes_sent, (name,))


def _queues(queues: list[tuple[LocalQueue, QueueOverview]]) -> Iterator[Sample]:
    yield Sample("sluicegate_queues", len(queues))
    yield Sample("sluicegate_queues_definition_lost", sum(1 for handle, _ in queues if handle.definition_lost))
    for handle, overview in queues:
        name = (queue_label(handle.name),)
        partitions = overview.partitions
        yield Sample("sluicegate_queue_messages_ready", sum(each.ready_count for each in partitions), name)
        yield Sample("sluicegate_queue_messages_delayed", sum(each.delayed_count for each in partitions), name)
        yield Sample("sluicegate_queue_messages_unacked", sum(each.in_flight_count for each in partitions), name)
        yield Sample("sluicegate_queue_spooled_bytes", overview.usage_bytes, name)
        dead_waiting_count = sum(each.dead_waiting_count for each in partitions)
        yield Sample("sluicegate_queue_messages_dead_waiting", dead_waiting_count, name)
        yield Sample("sluicegate_queue_messages_held", sum(each.held_count for each in partitions), name)
        yield Sample("sluicegate_queue_partitions", len(partitions), name)
        yield Sample("sluicegate_queue_flows", len(overview.flows), name)
        yield Sample("sluicegate_queue_kept_bytes", sum(each.kept_bytes for each in partitions), name)
        yield from _totals(name, overview.totals)


def _totals(name: tuple[str], totals: QueueTotals) -> Iterator[Sample]:
    yield Sample("sluicegate_queue_messages_accepted_total", totals.accepted_count, name)
    yield Sample("sluicegate_queue_messages_delivered_total", totals.delivered_count, name)
    yield Sample("sluicegate_queue_messages_redelivered_total", totals.redelivered_count, name)
    yield Sample("sluicegate_queue_messages_settled_total", totals.settled_count, name)
    yield Sample("sluicegate_queue_annotations_lost_total", totals.annotations_lost_count, name)
    yield Sample("sluicegate_queue_ack_timeouts_total", totals.lock_losses_count, name)
    yield Sample("sluicegate_queue_rebalances_total", totals.rebalances_count, name)
    for reason, count in totals.bind_refusals.items():
        yield Sample("sluicegate_queue_bind_refusals_total", count, (*name, reason))
    for reason, count in totals.discards.items():
        yield Sample("sluicegate_queue_messages_discarded_total", count, (*name, reason))
    for reason, count in totals.dead_lettered.items():
        yield Sample("sluicegate_queue_messages_to_dmq_total", count, (*name, reason))
    for verdict, count in totals.refusals.items():
        yield Sample("sluicegate_queue_messages_refused_total", count, (*name, REFUSAL_COUNTERS[verdict]))
    for verdict, count in totals.drops.items():
        yield Sample("sluicegate_queue_messages_dropped_total", count, (*name, REFUSAL_COUNTERS[verdict]))


def _losses(node: Node, vpns: list[VpnFigures]) -> Iterator[Sample]:
    """Yield the counts of refused messages, and of messages dropped silently."""
    refused, dropped = "sluicegate_messages_refused_total", "sluicegate_messages_dropped_total"
    unmatched = REFUSAL_COUNTERS[REFUSED_NO_MATCH]
    spaces = [figures.vpn.space for figures in vpns]
    yield Sample(refused, sum(space.unmatched_refused_count for space in spaces), (unmatched,))
    yield Sample(dropped, sum(space.unmatched_count for space in spaces), (unmatched,))
    yield Sample(dropped, sum(space.offline_count for space in spaces), ("client_away",))
    yield Sample(dropped, sum(space.arrived_unmatched_count for space in spaces), ("arrived_unmatched",))
    yield Sample(dropped, sum(space.filtered_count for space in spaces), ("no_target_selected",))
    yield Sample(dropped, sum(space.missing_count for space in spaces), ("no_target_queue",))
    yield Sample("sluicegate_link_guaranteed_sent_total", sum(space.sent_at_most_once_count for space in spaces))
    reasons = {reason for server in node.servers for reason in server.counters.dropped}
    for reason in reasons:
        yield Sample(dropped, sum(server.counters.dropped.get(reason, 0) for server in node.servers), (reason,))
    for space in spaces:
        for verdict, count in space.retained.refused.items():
            yield Sample(refused, count, (REFUSAL_COUNTERS[verdict],))
    for figures in vpns:
        gone = figures.vpn.gone_queues
        overviews = [overview for _, overview in figures.queues]
        for refusals in (gone.refusals, *[each.totals.refusals for each in overviews]):
            for verdict, count in refusals.items():
                yield Sample(refused, count, (REFUSAL_COUNTERS[verdict],))
        for drops in (gone.drops, *[each.totals.drops for each in overviews]):
            for verdict, count in drops.items():
                yield Sample(dropped, count, (REFUSAL_COUNTERS[verdict],))


def _cursors(cursors: list[CursorOverview]) -> Iterator[Sample]:
    for overview in cursors:
        view = cursor_view(overview)
        labels = (queue_label(overview.queue), view.name)
        yield Sample("sluicegate_cursor_lag_messages", view.lag_count, labels)
        yield Sample("sluicegate_cursor_lag_bytes", view.lag_bytes, labels)
        yield Sample("sluicegate_cursor_exceeded", 1 if overview.exceeded else 0, labels)


def reader_samples(batches: ReaderBatches) -> Iterator[Sample]:
    """Yield the samples of the bulk readers of a message VPN."""
    for (queue, cursor, job), totals in batches.totals().items():
        labels = (queue_label(queue), cursor, job)
        yield Sample("sluicegate_reader_batches_total", totals.batches_count, labels)
        yield Sample("sluicegate_reader_rows_total", totals.rows_count, labels)
        yield Sample("sluicegate_reader_undecodable_rows_total", totals.undecodable_count, labels)
        yield Sample("sluicegate_reader_batch_seconds_total", totals.duration_ms / 1000, labels)
        yield Sample("sluicegate_reader_last_batch_timestamp_seconds", totals.last_ms / 1000, labels)


def _transactions(staging: StagingOverview) -> Iterator[Sample]:
    yield Sample("sluicegate_transactions_open", staging.open_count)
    yield Sample("sluicegate_staged_bytes", staging.staged_bytes)
    ends = {
        "committed": staging.committed_count,
        "aborted": staging.aborted_count,
        "expired": staging.expired_count,
    }
    for end, count in ends.items():
        yield Sample("sluicegate_transactions_ended_total", count, (end,))


def _moves(node: Node) -> Iterator[Sample]:
    for name, moves in node.links.all_moves().items():
        yield Sample("sluicegate_queue_moves", len(moves.movers), vpn=name)
        yield Sample("sluicegate_queue_moves_waiting", moves.long_waits_count, vpn=name)
        yield Sample("sluicegate_queue_moves_total", moves.sent_count, ("sent",), vpn=name)
        yield Sample("sluicegate_queue_moves_total", moves.received_count, ("received",), vpn=name)
        yield Sample("sluicegate_queue_moves_cancelled_total", moves.cancelled_count, vpn=name)
        yield Sample("sluicegate_queue_move_messages_total", moves.handed_over_count, vpn=name)
        yield Sample("sluicegate_queue_move_holds_total", moves.holds.count, vpn=name)
        yield Sample("sluicegate_queue_move_held_seconds_total", moves.holds.held_ms / 1000, vpn=name)


def _links(node: Node) -> Iterator[Sample]:
    links = node.links.links
    for message_vpn in node.vpns.values():
        for verdict, count in message_vpn.space.refused_early.items():
            labels = (REFUSAL_COUNTERS[verdict],)
            yield Sample("sluicegate_link_refused_early_total", count, labels, vpn=message_vpn.name)
        neighbors = message_vpn.space.neighbors
        if neighbors is not None:
            count = neighbors.queues.unreadable_count
            yield Sample("sluicegate_link_unreadable_queues_total", count, vpn=message_vpn.name)
        clients = message_vpn.network_clients
        yield Sample("sluicegate_mqtt_clients_moved_total", clients.ended_count, vpn=message_vpn.name)
        yield Sample("sluicegate_mqtt_other_users_connected_total", clients.other_user_count, vpn=message_vpn.name)
    yield from _moves(node)
    for vpn, count in node.links.overruns().items():
        yield Sample("sluicegate_link_overrun_total", count, vpn=vpn)
    for reason, count in links.refused.counts.items():
        yield Sample("sluicegate_link_refusals_total", count, ("", reason))
    for vpn, mesh in links.meshes.items():
        yield Sample("sluicegate_link_missing", len(mesh.missing()), vpn=vpn)
    for name, neighbor in links.neighbors.items():
        yield Sample("sluicegate_link_up", int(neighbor.is_up), (name,))
        yield Sample("sluicegate_link_dials_total", neighbor.counts.dials, (name,))
        yield Sample("sluicegate_link_connects_total", neighbor.counts.connects, (name,))
        for reason, count in neighbor.counts.refusals.items():
            yield Sample("sluicegate_link_refusals_total", count, (name, reason))
        yield Sample("sluicegate_link_messages_sent_total", neighbor.sent_count, (name,))
        for reason, count in neighbor.lost_counts().items():
            yield Sample("sluicegate_link_messages_dropped_total", count, (name, reason))
        waiting = 0 if neighbor.wire is None else neighbor.wire.waiting_bytes
        yield Sample("sluicegate_link_waiting_bytes", waiting, (name,))
        for each in neighbor.vpns:
            labels = (name,)
            figures = {
                "sluicegate_link_messages_received_total": each.received_count,
                "sluicegate_link_exported_interests": each.interests.sender.interests.count,
                "sluicegate_link_imported_interests": each.interests.receiver.interests.count,
                "sluicegate_link_subscribe_timeouts_total": each.interests.waits.timeouts_count,
                "sluicegate_link_queue_messages": int(each.queue_sender.queue.target.gate.usage_count),
                "sluicegate_link_queue_bytes": int(each.queue_sender.queue.target.gate.usage_bytes),
                "sluicegate_link_queue_quota_bytes": int(each.queue_sender.queue.target.gate.usage_bytes_max),
                "sluicegate_link_guaranteed_in_flight": each.queue_sender.unanswered_count,
                "sluicegate_link_guaranteed_stored_total": each.queue_sender.stored_count,
                "sluicegate_link_guaranteed_too_large_total": each.queue_sender.too_large_count,
                "sluicegate_link_guaranteed_received_total": each.arrivals.received_count,
                "sluicegate_link_guaranteed_repeated_total": each.arrivals.repeated_count,
                "sluicegate_link_guaranteed_waiting": each.arrivals.waiting_count,
                "sluicegate_link_retained_sent_total": each.retained.sent_count,
                "sluicegate_link_retained_received_total": each.retained.received_count,
                "sluicegate_link_consumers": each.remote_queues.flows_count,
                "sluicegate_link_neighbor_consumers": each.home_flows.flows_count,
                "sluicegate_link_deliveries_total": each.home_flows.delivered_count,
                "sluicegate_link_deliveries_unwritable_total": each.home_flows.unwritable_count,
                "sluicegate_link_range_messages_total": each.home_readers.read_count,
            }
            for metric, value in figures.items():
                yield Sample(metric, value, labels, vpn=each.vpn.name)
            for reason, count in each.retained.rejected_counts().items():
                yield Sample("sluicegate_link_retained_rejected_total", count, (name, reason), vpn=each.vpn.name)


def _rest_delivery_points(points: Iterable[RestDeliveryPoint]) -> Iterator[Sample]:
    for point in points:
        yield Sample("sluicegate_rest_delivery_point_up", int(point.is_up), (point.name,))
        for consumer in point.consumers:
            labels = (point.name, consumer.settings.name)
            yield Sample("sluicegate_rest_consumer_up", int(consumer.is_up), labels)
            if consumer.refused_count:
                yield Sample("sluicegate_rest_consumer_targets_refused_total", consumer.refused_count, labels)
            for status, count in consumer.statuses.items():
                yield Sample("sluicegate_rest_consumer_requests_total", count, (*labels, status))
        for binding in point.bindings:
            for outcome, count in binding.outcomes.items():
                labels = (binding.settings.queue, point.name)
                yield Sample("sluicegate_rest_delivery_point_messages_total", count, (*labels, OUTCOMES[outcome]))


def _bridges(bridges: Bridges) -> Iterator[Sample]:
    for name in bridges.wanted():
        running = bridges.running.get(name)
        yield Sample("sluicegate_bridge_up", int(running is not None and running.is_open), (name,))
    for name, bridge in bridges.running.items():
        yield Sample("sluicegate_bridge_connections_total", bridge.connections_count, (name,))
        yield Sample("sluicegate_bridge_unmatched_total", bridge.unmatched_count, (name,))
        for side in bridge.outgoing:
            labels = (name, "outgoing", side.rule.name)
            yield Sample("sluicegate_bridge_unconfirmed_messages", side.waiting_count, labels)
        for each in bridge.incoming:
            labels = (name, "incoming", each.rule.name)
            yield Sample("sluicegate_bridge_unconfirmed_messages", each.waiting_count, labels)
    for name, rules in bridges.counters.items():
        for (direction, rule), counted in rules.items():
            labels = (name, direction, rule)
            yield Sample("sluicegate_bridge_messages_total", counted.messages_count, labels)
            yield Sample("sluicegate_bridge_bytes_total", counted.payload_bytes, labels)
            yield Sample("sluicegate_bridge_failures_total", counted.failures_count, labels)
            for reason, count in counted.dropped.items():
                yield Sample("sluicegate_bridge_dropped_total", count, (*labels, reason))
            yield Sample("sluicegate_bridge_lowered_total", counted.lowered_count, labels)


def _amqp_transactions(accounts: TransactionAccounts) -> Iterator[Sample]:
    yield Sample("sluicegate_amqp_transactions_open", accounts.open_count)
    yield Sample("sluicegate_amqp_transactions_bytes", accounts.used_bytes)
    yield Sample("sluicegate_amqp_transactions_committed_total", accounts.committed_count)
    for reason, count in accounts.rolled_back_counts.items():
        yield Sample("sluicegate_amqp_transactions_rolled_back_total", count, (reason,))


def _spool(node: Node) -> Iterator[Sample]:
    actor = node.services.spool_actor()
    yield Sample("sluicegate_spool_commits_total", actor.commits_count)
    yield Sample("sluicegate_spool_commits_by_loop_total", actor.commits_here_count)
    latencies = actor.commit_latencies
    yield Sample(
        "sluicegate_spool_commit_duration_seconds", latencies.sum_ns / 1_000_000_000, counts=tuple(latencies.counts)
    )
    for kind, count in actor.commits_failed.items():
        yield Sample("sluicegate_spool_commit_failures_total", count, (kind,))
    yield Sample("sluicegate_spool_checkpoints_total", actor.checkpoints.count)
    yield Sample("sluicegate_spool_checkpoint_seconds_total", actor.checkpoints.taken_ns / 1e9)
    yield Sample("sluicegate_spool_checkpoint_failures_total", actor.checkpoints.failed_count)
    for kind in FAILURES:
        yield Sample("sluicegate_spool_failed", 1 if node.services.spool_health.kind == kind else 0, (kind,))
    yield Sample("sluicegate_spool_unread_partitions", len(node.services.spool_health.unread_partitions))
    yield Sample("sluicegate_spool_messages_written_total", node.services.planner.written_count)
    yield Sample("sluicegate_spool_messages_elided_total", node.services.planner.elided_count)
    damaged = node.services.recovered.damaged_count + actor.damaged_pages_count
    yield Sample("sluicegate_spool_damaged_records_total", damaged)
    usage = node.services.store.usage()
    yield Sample("sluicegate_spool_log_bytes", usage.log_bytes)
    yield Sample("sluicegate_spool_log_records", usage.log_records)
    yield Sample("sluicegate_spool_used_bytes", usage.used_bytes)
    yield Sample("sluicegate_spool_limit_bytes", usage.map_bytes_max)
    yield Sample("sluicegate_spool_disk_room_bytes", usage.disk_room_bytes())
    yield Sample("sluicegate_spool_messages_bytes", int(node.services.spool_gate.usage_bytes))
    yield Sample("sluicegate_spool_messages_limit_bytes", int(node.services.spool_gate.usage_bytes_max))


def _backups(node: Node) -> Iterator[Sample]:
    actor = node.backups.actor
    assert isinstance(actor, BackupActor)
    for outcome, count in actor.record.ended_counts.items():
        yield Sample("sluicegate_backups_total", count, (outcome,))
    if actor.record.last_done_ms:
        yield Sample("sluicegate_backup_last_done_timestamp_seconds", actor.record.last_done_ms / 1000)


def _events(node: Node) -> Iterator[Sample]:
    events = node.services.runtime.events.record
    for name, count in events.counts.items():
        yield Sample("sluicegate_events_total", count, (name,))
    for name, count in events.suppressed.items():
        yield Sample("sluicegate_events_suppressed_total", count, (name,))


def _traces(node: Node) -> Iterator[Sample]:
    export = node.trace_export
    if export is not None:
        yield Sample("sluicegate_trace_spans_exported_total", export.exported_count)
        yield Sample("sluicegate_trace_spans_failed_total", export.failed_count)
        yield Sample("sluicegate_trace_records_dropped_total", export.buffer.dropped_count)


def _actors(roots: Sequence[ActorOverview], ended: Mapping[str, EndedActors]) -> Iterator[Sample]:
    totals: dict[str, list[float]] = {
        kind: [0, 0, gone.handled_count, gone.batches_count, gone.handling_ns / 1e9, gone.restarts_count]
        for kind, gone in ended.items()
    }
    for actor in _walk(roots):
        total = totals.setdefault(actor.kind, [0, 0, 0, 0, 0, 0])
        total[0] += 1
        total[1] += actor.inbox_depth
        total[2] += actor.handled_count
        total[3] += actor.batches_count
        total[4] += actor.handling_ns / 1e9
        total[5] += actor.restarts_count
    names = (
        "sluicegate_actors",
        "sluicegate_actor_inbox_messages",
        "sluicegate_actor_messages_handled_total",
        "sluicegate_actor_batches_handled_total",
        "sluicegate_actor_handling_seconds_total",
        "sluicegate_actor_restarts_total",
    )
    for kind, total in totals.items():
        for name, value in zip(names, total, strict=True):
            yield Sample(name, value, (kind,))


def queue_label(name: str) -> str:
    """Return the label of a queue. Queues of sessions are as many as clients, and share one label."""
    return name if is_named(name) or name.startswith(LINK_PREFIX) else SESSIONS


def _walk(actors: Sequence[ActorOverview]) -> Iterator[ActorOverview]:
    for actor in actors:
        yield actor
        yield from _walk(actor.children)
