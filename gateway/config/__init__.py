"""The configuration of a node: one frozen value, from defaults, a file, the environment and the command line.

`load.load` is the only way in. After that, nothing reads the environment or a configuration file.
"""
