"""The web console: a page, a style sheet and JavaScript modules, served without a build (gateway.admin.console_files).

`api` has the requests to the admin API, `widgets` what pages are built of, `pages` the pages; `app.js` moves between
them. There is no Python here, and no dependency. The console reads everything from the admin API, as any client does.
"""
