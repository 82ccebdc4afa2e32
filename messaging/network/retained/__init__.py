"""What brokers agree on about retained messages: versions, deletions, and the exchange of what a neighbor lacks."""
