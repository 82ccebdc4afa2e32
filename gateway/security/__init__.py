"""Accounts of clients and operators, their credentials, certificates, and the audit log."""
