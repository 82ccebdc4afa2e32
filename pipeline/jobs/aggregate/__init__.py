"""`aggregate`: what comes into a queue, by windows of time.

`job` is its file and the query, `windows` says what is grouped and measured, and `page` shows people
what came of it.
"""
