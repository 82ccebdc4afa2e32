"""What brokers of a network tell each other of their subscriptions: pure cores, without frames and connections."""
