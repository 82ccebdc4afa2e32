"""The application: configuration, composition root, command line, admin API, metrics and logs.

This package may import all others, and none imports it. Rules of queues and of protocols are not decided here. Its
packages import downwards: cli, process, admin, operations, node, security, provisioning, observability, views, config.
"""
