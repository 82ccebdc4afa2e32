"""MQTT 3.1, 3.1.1 and 5.0, the server's side.

Here live the wire engine (`engine.py`, over `packets/`), which knows packets and the rules of one connection, and the
session logic, which knows subscriptions and what is in flight. Only the connection actor may touch a socket.
Statement ids in comments, as `[3.3.1-4]`, are those of MQTT 5.0; `[311:...]` are those of 3.1.1.
"""
