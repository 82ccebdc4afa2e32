"""AMQP 1.0, the server's side.

Here live the type system (`values`, `decoding`, `encoding`), frames and performatives, the SASL layer, and the sans-IO
engine of one connection with its sessions and links. Only the connection may touch a transport. Section numbers in
comments, as `2.6.7`, are those of the parts of the OASIS standard: 1 types, 2 transport, 3 messaging, 4 transactions,
5 security.
"""
