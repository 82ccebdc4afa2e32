"""Connections that this broker makes to neighbor brokers."""
