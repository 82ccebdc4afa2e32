"""The composition root: starting and ending the process, ports of operators, `doctor`."""
