"""Virtual topics and composite destinations: definitions, their validation, and what they resolve to."""
