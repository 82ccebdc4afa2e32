"""How commands write to terminals: tables, live views, failures, passwords."""
