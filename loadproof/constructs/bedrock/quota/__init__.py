"""The account's quota of a model, read by name at deployment."""
