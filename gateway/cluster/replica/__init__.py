"""The process of one replica: its role, what it does while it is the owner, and what it warns of."""
