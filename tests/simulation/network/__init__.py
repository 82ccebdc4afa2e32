"""Three linked brokers on virtual time, under one seed. Start reading at `run.py`.

Each broker is a world of its own, as in a run of one broker, with its judge: what links add is here.
"""
