"""Bridges: messages of a message VPN go to a foreign broker, and messages of that broker come here.

A bridge lives on the event loop (`bridge`, `outgoing`, `incoming`) and consumes and publishes like any client. The
client library of the foreign broker's protocol runs in a thread of the bridge's own: `remote` says what passes between
the two, `remotes` has one module for each protocol. Messages are translated in that thread.
"""
