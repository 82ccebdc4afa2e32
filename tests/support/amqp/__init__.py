"""AMQP clients whose frames a test sees, and an AMQP engine without a broker."""
