"""Sections of accounts, profiles, logins and web pages."""
