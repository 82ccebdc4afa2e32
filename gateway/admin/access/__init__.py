"""Who may use a port of operators, and how many requests at a time."""
