"""The client of the admin API that the commands use."""
