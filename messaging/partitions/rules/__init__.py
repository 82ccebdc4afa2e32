"""What a ledger delivers next, and what it may not: groups, priorities, selection, expiry, moves.

Each rule is a set of functions over `messaging.partitions.state`. Only the ledger and its neighbours import them."""
