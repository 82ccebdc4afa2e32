"""What connections of all protocols share: identity, message VPN, SASL, flow control, counters."""
