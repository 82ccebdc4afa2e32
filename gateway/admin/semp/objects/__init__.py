"""The objects of SEMP: clients, queues, and their attributes."""
