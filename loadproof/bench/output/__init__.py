"""A run for a terminal, for CI and for a pull request."""
