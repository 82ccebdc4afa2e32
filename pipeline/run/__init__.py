"""How jobs run: the two kinds of jobs, their attempts, progress and positions."""
