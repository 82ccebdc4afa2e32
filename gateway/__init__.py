"""The application: configuration, composition root, command line, admin API, metrics and logs.

The only room that may import all others; nothing imports it. What a queue or a protocol does is not decided here.
"""
