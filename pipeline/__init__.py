"""Jobs of Spark over queues, and the program that runs them: `sluicegate pipeline`.

Each job is a function of a session and its checked configuration, in a file of its own; `jobs` lists them, `attempt`
and `supervision` run them. How queues are read and written is `pyspark_sluicegate`'s matter; of the gateway only the
client library may be imported. `docs/pipeline.md` is for operators.
"""
