"""Preflight: an account looked at before a deployment, by reading alone. What could not be seen is told as unknown."""
