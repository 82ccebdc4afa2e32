"""Clients of a round. Each runs on a thread of its own, connects again by itself, and tells the ledger what it sees."""
