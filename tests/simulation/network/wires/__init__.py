"""What the brokers share instead of a machine and a network: one time for all event loops, and ways between brokers."""
