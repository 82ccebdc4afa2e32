"""Values for operators: events, thresholds, traces. Other packages send and store them."""
