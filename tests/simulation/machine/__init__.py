"""What a node runs on: a clock, an event loop, a store with its disk, and web servers to push to."""
