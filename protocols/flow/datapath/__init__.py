"""Messages in and out of one client of the flow protocol: publishing, consuming, browsing, bulk."""
