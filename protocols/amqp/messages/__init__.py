"""Conversion of messages between AMQP's sections and the broker's own form."""
