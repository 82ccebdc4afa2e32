"""The job `presence`: who was connected when, by the events of the gateway."""
