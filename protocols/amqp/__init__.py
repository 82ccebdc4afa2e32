"""AMQP 1.0, server side.

`types` is the type system, `codec` the wire format, `engine` the sans-IO state machine of one connection with its
sessions and links, `messages` the conversion of messages, `datapath` the messages in both directions, `links` the
handlers that attach links, `handshake` SASL and open. `registry.py` is what the connections of a message VPN know of
each other, `client.py` the client as the handlers see it, `connection.py` the actor that dispatches to them and alone
touches the transport.
Section numbers in comments, as `2.6.7`, are those of the parts of the OASIS standard: 1 types, 2 transport,
3 messaging, 4 transactions, 5 security.
"""
