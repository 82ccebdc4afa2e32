"""Login backends: web servers and directories that are asked who may come in."""
