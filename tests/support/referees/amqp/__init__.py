"""The referee of AMQP 1.0."""
