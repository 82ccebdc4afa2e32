"""Messages in and out of one AMQP client: publishing, consuming, browsing, transactions, link recovery."""
