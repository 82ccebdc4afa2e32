"""HTTP on the wire: the engine, requests, responses, paths, and messages in both directions."""
