"""The metrics of a node: their table, by subject, and its rendering for Prometheus. It counts nothing itself."""
