"""The clients of a run: they publish and consume over wire bytes, and are slow, forgetful or absent on command."""
