"""`loadproof learn`."""
