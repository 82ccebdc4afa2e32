"""`audit`: checks that every input message was processed once, and in order for each key.

`job` compares the archives, `findings` has the results, and `page` makes the report.
"""
