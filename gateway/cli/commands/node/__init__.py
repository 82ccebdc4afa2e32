"""Commands for a whole node: `serve`, `check-config`, `doctor`, `actors`, `events`, `top` and backups."""
