"""The web console: a page, a style sheet and JavaScript modules, served without a build (gateway.admin.console_files).

There is no Python here, and no dependency. The console reads everything from the admin API, as any client does.
"""
