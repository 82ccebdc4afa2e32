"""Referees, one for each connection: they know the standards and nothing of the gateway's code."""
