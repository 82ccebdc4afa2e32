"""A damaged data file, read without LMDB: the check at each start, the walk of its trees, and salvage."""
