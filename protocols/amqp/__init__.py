"""AMQP 1.0, the server's side.

Here are the type system (`types`), frames and performatives (`codec`), the sans-IO engine of one connection with its
sessions and links (`engine`), and the messages of one client (`datapath`). Only the connection touches a transport.
Section numbers in comments, as `2.6.7`, are those of the parts of the OASIS standard: 1 types, 2 transport,
3 messaging, 4 transactions, 5 security.
"""
