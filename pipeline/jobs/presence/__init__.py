"""The job `presence`: shows when clients were connected, from the events of the gateway."""
