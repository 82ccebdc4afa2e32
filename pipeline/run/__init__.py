"""How jobs run: attempts, triggers, supervision, progress, plans."""
