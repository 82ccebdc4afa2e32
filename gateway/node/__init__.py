"""A running node and its message VPNs: what is made in which order, recovered, reloaded and stopped."""
