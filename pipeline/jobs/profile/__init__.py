"""The job `profile`: what payloads of a queue are like, topic by topic."""
