"""Commands about a node as a whole: status, actors, events, backups, `doctor`, `top`."""
