"""The sections of the configuration, a module for each subject. `docs/configuration.md` lists all settings."""
