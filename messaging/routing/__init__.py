"""Which destinations get a message on a topic: routes, Deliver-To-One, and virtual destinations."""
