"""The vocabulary of the gateway and its pure cores: messages, topics, ledgers, windows, quotas, routes.

What lives here does no I/O, reads no clock, starts no thread, knows no actor; it imports nothing else of ours.
All of it is compiled with mypyc, and runs uncompiled from the same source.
"""
