"""Commands for a whole node: `serve`, `check-config`, `reload`, `doctor`, `actors`, `events`, `top` and backups."""
