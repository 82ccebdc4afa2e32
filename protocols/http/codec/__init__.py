"""HTTP on the wire: heads, paths, problems, messages both ways. No state."""
