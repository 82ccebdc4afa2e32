"""Spark jobs over queues, and the program that runs them: `sluicegate pipeline`.

Each job is a function of a session and its checked configuration, in its own module below `jobs`; `cli.JOBS` lists
them, `run` runs and retries them. `pyspark_sluicegate` reads and writes queues; of the gateway, only the client
library may be imported. `docs/data/pipeline.md` is for operators.
"""
