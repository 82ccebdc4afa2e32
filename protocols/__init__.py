"""The wire protocols, one folder each: a sans-IO engine, and the thin actor that owns its socket.

An engine turns bytes into events and commands into bytes; it holds no socket, clock, thread or actor. What carries
the bytes of every protocol lies beside the folders: listeners, transports, TLS, WebSocket. May import `messaging` and
`actors`; one protocol never imports another: what they share is the normalised message.
"""
