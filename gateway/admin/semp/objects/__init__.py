"""The kinds of SEMP objects, with their attributes."""
