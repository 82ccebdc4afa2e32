"""`audit`: was everything that came in also done, once, and in order for each key?

`job` is what operators run, `comparison` asks Spark, `findings` is what comes of it, and `page` shows that to people.
"""
