"""The data folder and the LMDB environment in it: databases, identity, file rights, lock, quarantine."""
