"""Programs that tests start: the gateway, foreign programs, and a terminal around them."""
