"""MQTT 3.1, 3.1.1 and 5.0, server side.

`codec` is the wire format, `engine` the sans-IO state machine of one connection, `session` what outlives a connection,
`datapath` the messages in both directions, `requests` the handlers that ask other actors. `client.py` is the client as
these handlers see it, `connection.py` the actor that dispatches to them and alone touches the transport.
Statement ids in comments, as `[3.3.1-4]`, are those of MQTT 5.0; `[311:...]` are those of 3.1.1.
"""
