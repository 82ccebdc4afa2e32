"""`aggregate`: aggregates the messages of a queue by windows of time.

`job` has its file and the query, `windows` defines groups and measures, and `page` makes the report.
"""
