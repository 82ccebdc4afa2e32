"""The directory of a message VPN's queues: creation, change, permissions, templates, rescale plans."""
