"""A machine with replicas of several brokers: a process for each, and one that starts them."""
