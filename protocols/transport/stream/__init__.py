"""Open byte streams over TCP."""
