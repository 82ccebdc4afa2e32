"""Where the consumer is: queues of a neighbor, as consumers, browsers and readers of this broker see them."""
