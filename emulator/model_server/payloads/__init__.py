"""Real payloads of the model servers: what they accept, what they answer, how they refuse."""
