"""Tests that play runs and scenes of one broker."""
