"""A running node and its message VPNs: how they are made, recovered, reloaded and stopped.

From the ground up: `services`, `vpn`, `servers`, `node`. Each module imports only those before it.
"""
