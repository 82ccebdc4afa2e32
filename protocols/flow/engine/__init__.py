"""The sans-IO engine of one connection of the flow protocol. Bytes in, events out."""
