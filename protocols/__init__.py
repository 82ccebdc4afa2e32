"""The wire protocols, a package each: a sans-IO engine, and the thin actor that owns its socket.

An engine turns bytes into events and commands into bytes; it holds no socket, clock, thread or actor. What all
protocols share is in `transport`, `security` and `connection`. May import `messaging` and `actors`; one protocol never
imports another: what they share is the normalised message.
"""
