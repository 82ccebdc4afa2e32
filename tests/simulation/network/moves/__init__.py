"""Runs of three brokers in which a queue moves from one to the other, under crashes and cuts."""
