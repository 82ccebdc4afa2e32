"""Sources of imports as texts in memory, and what is true of every import."""
