"""Authentication: passwords, SCRAM, tokens, OAuth, and limits for guessing them.

It knows no protocol. What an authenticated client may do is in `messaging.clients`.
"""
