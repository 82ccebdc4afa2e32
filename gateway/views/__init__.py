"""What operators see: frozen values, and the errors they are answered with. No node, no actor."""
