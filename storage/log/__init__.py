"""The log: what a store must remember, as one sequence of records. See also: the state (storage.store).

Here are the form of a record, the files that hold records on a local disk (the journal), and the records that the state
does not include yet. Nothing here knows LMDB. Imports storage.interface and storage.records.
"""
