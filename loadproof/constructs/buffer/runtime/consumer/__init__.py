"""What the buffer's function runs: nothing outside this package is packed with it."""
