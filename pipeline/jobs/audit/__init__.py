"""`audit`: checks that every input message was processed once, and in order for each key.

`job` is the operator's job, `comparison` queries Spark, `findings` has the results, and `page` makes the report.
"""
