"""Configurations of other brokers as configurations of this one, each importer in a package of its own.

An importer takes texts and returns what is to be written, and a report in which each setting of the source appears. It
opens no file itself. `gateway.cli.commands.imports` reads and writes.
"""
