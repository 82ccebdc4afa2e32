"""The job `profile`: describes the payloads of a queue, topic by topic."""
