"""The programs of `examples/`: how they are built and run, and what they have to do, whatever their language."""
