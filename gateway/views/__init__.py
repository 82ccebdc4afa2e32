"""What operators see: frozen values without a node behind them, and the errors they are told."""
