"""The control packets of MQTT, a module per family: free functions from bytes to values and back.

They know no session and no connection. Versions differ by the level that is passed in; errors are `PeerViolation`.
"""
