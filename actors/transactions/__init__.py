"""Transactions: settlements and publications in one record, and staged transactions."""
