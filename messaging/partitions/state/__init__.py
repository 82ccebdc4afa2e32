"""The state of a ledger: segments of messages, flows, unsettled deliveries, delays, effects.

State and its invariants only. `messaging.partitions.rules` decides what happens next.
"""
