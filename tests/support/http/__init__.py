"""HTTP clients of a broker, and web servers that a broker pushes to."""
