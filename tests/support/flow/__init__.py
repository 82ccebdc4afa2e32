"""Clients of the flow protocol, and its engine without a broker."""
