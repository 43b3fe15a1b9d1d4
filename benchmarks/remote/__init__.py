"""The door of one host of a benchmark job."""
