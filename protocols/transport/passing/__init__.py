"""Passing open streams to other processes of this machine."""
