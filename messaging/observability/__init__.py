"""What operators are told: events, thresholds, traces. Values only; who sends or stores them is elsewhere."""
