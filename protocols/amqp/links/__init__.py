"""Attaching links: sources, targets, subscriptions, shared groups, dynamic nodes, coordinators."""
