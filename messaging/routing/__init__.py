"""Find the destinations of a message: routes, Deliver-To-One, and virtual destinations."""
