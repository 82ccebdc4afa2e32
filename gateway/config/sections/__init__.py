"""The sections of the configuration, a module for each subject. `docs/operate/configuration.md` lists all settings."""
