"""The buffer: a queue in front of an endpoint, and the consumer that empties it."""
