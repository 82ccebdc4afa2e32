"""Queues that move from one broker of a network to another, while their clients go on."""
