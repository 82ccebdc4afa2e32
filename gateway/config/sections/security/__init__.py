"""What can be configured of accounts, profiles, logins and web pages."""
