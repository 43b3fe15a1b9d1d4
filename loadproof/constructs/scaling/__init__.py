"""How the number of copies follows the load."""
