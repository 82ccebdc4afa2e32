"""The event loop and its sockets: accepting, reading and writing without superfluous copies. Linux first."""
