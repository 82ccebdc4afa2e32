"""The vocabulary of the gateway and its pure cores: messages, topics, ledgers, windows, quotas, routes.

The packages here do no I/O, read no clock, start no thread, know no actor; they import nothing else of ours.
All of it is compiled with mypyc, and runs uncompiled from the same source.
"""
