"""The settings that bridges, links and REST delivery points run with, and what they are refused for or warned of.

They are made of sections, and of the contents of the files that sections name.
"""
