"""What a node is told to be: one frozen value, from defaults, a file, the environment and the command line.

`load.load` is the only way in; everything else in here serves it. Nothing reads the environment or a file after that.
"""
