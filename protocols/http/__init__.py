"""HTTP messaging: publishers POST to a topic or a queue, workers GET messages of a queue and settle them.

httptools parses HTTP. `codec` is the wire format with the sans-IO engine of one connection, `publishing` and
`consuming` the messages in both directions, `requests` the handlers, to which `router.py` dispatches. `client.py` is
the client as these handlers see it, `connection.py` the actor that alone touches the transport. The HTTP port of
operators is in `gateway.admin`.
"""
