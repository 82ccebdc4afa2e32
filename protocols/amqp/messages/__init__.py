"""Messages between AMQP's sections and ours, both ways."""
