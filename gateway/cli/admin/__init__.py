"""The client of the admin port that commands use."""
