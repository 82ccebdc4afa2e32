"""Bearer tokens, and the keys that they are checked with."""
