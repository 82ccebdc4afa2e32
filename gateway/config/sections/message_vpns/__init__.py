"""The sections of message VPNs: what each has of its own, and its virtual destinations, bridges and delivery points."""
