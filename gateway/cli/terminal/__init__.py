"""Input and output of commands: tables, JSON, live views, failures, passwords."""
