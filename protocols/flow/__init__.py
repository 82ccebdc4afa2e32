"""The flow protocol: our own binary protocol for direct and guaranteed messages.

`codec` is the wire format, `engine` the sans-IO state machine that both ends use, `datapath` the messages in both
directions, `requests` the handlers that ask other actors, `publishers` the named publishers. `peer.py` is a client as
these handlers see it, `connection.py` the actor that dispatches to them and alone touches the transport. The other
end, the library for programs, is `client`.
`docs/connect/flow-protocol.md` is the specification; its sections are cited as `Flow: publishing`.
"""
