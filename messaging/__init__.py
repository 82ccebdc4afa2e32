"""The vocabulary of the gateway and its pure cores: messages, topics, ledgers, windows, quotas, routes.

The packages do no I/O, read no clock, start no thread and know no actor; they import only each other. All of them are
compiled with mypyc, and run uncompiled from the same source.
"""
