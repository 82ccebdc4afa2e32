"""A whole broker in the test's own event loop, and what a test does to it."""
