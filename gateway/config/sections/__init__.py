"""The sections of the configuration, a module for each subject. `docs/operate/settings.md` lists all settings."""
