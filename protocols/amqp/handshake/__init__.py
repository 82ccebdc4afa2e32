"""SASL and open: what happens before the first session."""
