"""Where the queue is: what consumers, browsers and readers of a neighbor do to queues of this broker."""
