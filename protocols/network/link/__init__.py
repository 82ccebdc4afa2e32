"""The links of a node: who is let in, and what each message VPN of a link does."""
