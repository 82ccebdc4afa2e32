"""How the log of a broker is trimmed, and from where a replica begins that finds it trimmed: snapshots and holds."""
