"""The event loop and its sockets: accepting, reading and writing without a copy too many. Linux first."""
