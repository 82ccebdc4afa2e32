"""The sans-IO engine of one AMQP connection: sessions, links, transfers. Bytes in, events out."""
