"""Which level is measured next, when a search is over, what it found."""
