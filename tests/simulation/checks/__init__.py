"""Checks of the node, its log and its store, which need no client."""
