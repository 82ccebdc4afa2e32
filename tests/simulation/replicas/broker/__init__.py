"""What an owner does in the place of a node: it commits what publishers and consumers want, and tells them."""
