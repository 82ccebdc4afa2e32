"""Who a client is: passwords, SCRAM, tokens, OAuth, and what slows guessers down.

Knows no protocol. What an authenticated client may do is in `messaging.clients`."""
