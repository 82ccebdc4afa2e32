"""Limits that hold for all brokers of a machine together: what each of them uses, and who may take more.

Pure: the memory that they share, and the lock on it, are given. A broker that is alone on its machine uses none of it.
"""
