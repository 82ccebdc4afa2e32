"""SEMP v2, the management API of Solace's brokers: its paths, names, queries and answers, over the node's operations.

Nothing is decided here and nothing is kept: tables of objects say which attribute is which of a view and which field of
a body, and everything is asked of a `NodeInterface`, as by the admin API.
"""
