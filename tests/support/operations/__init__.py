"""What operators use: the admin port over a node in memory, the console, traces and manifests."""
