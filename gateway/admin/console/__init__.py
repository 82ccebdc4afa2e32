"""The web console: a page, a style sheet and modules of JavaScript, served as they are (gateway.admin.console_files).

No Python lives here but this sign. Nothing is built, and nothing comes from elsewhere. What the console knows it asks
of the admin port, like every other client.
"""
