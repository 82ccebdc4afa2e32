"""The replicated log: a stream that servers agree on, from which every replica of a broker has the same records."""
