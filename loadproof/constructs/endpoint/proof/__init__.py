"""Whether what runs is what was deployed."""
