"""The rules of delivery of a ledger: groups, priorities, selection, expiry, moves.

Each rule is a set of functions over `messaging.partitions.state`. Only the ledger and its neighbours import them.
"""
