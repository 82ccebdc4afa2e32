"""Views of a node as a whole: its actors, events and health, its counters, its spool and backups."""
