"""Links to other brokers of the network: dialling and accepting, the exchange of interests, direct messages."""
