"""Actors and cores without a node, and the plain models that they are compared with."""
