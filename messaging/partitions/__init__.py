"""The ledger of one partition: which messages are ready, in flight, delayed, moved or settled.

`ledger` is the entry point. Pure: it returns effects, and the partition's actor carries them out.
"""
