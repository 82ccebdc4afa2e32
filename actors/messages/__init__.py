"""What actors say to each other, a module for each receiver. Values only: no behaviour, no actor."""
