"""The composition root: start and end of the process, operator ports, `doctor`."""
