"""A bucket that takes its objects with it when its stack is deleted."""
