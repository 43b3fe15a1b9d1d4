"""Two synthesized sides of a profile -> what changes, what it costs, what breaks (docs/decisions/0013-review.md)."""
