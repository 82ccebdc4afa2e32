"""What can be configured, a section of the file each. `docs/configuration.md` lists all settings."""
