"""Named publishers: their state, so that no message is stored twice."""
