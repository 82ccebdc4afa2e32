"""The operations of operators, carried out against the actors of a node.

`interface` lists them. The admin API, SEMP and the console use it, and ask no actor themselves.
"""
