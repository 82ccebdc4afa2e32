"""Queues of other brokers: the end where the queue is (`home`), and the one where its consumers are (`remote`).

Both speak in notes, which are bodies of LINK_FLOW; operators ask and act by them, too.
"""
