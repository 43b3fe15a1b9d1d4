"""What an account was given, and what it was not: quotas, images of other accounts, reservations, rights."""
