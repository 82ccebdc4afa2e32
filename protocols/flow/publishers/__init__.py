"""Named publishers: what is remembered of them, so that nothing is stored twice."""
