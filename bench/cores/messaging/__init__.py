"""Micro-benchmarks of the cores in `sluicegate.messaging`: the ledger, groups, selectors and subscriptions.

Each file is a program. They import nothing else of `bench`.
"""
