"""The process of one replica on virtual time: its event loops, its threads, its clocks, its end."""
