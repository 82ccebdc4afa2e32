"""What a ledger holds: segments of messages, flows, unsettled deliveries, delays, effects.

State and its invariants only. What happens next is decided in `messaging.partitions.rules`."""
