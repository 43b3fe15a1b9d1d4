"""The two sides of a change: found by git, laid out, checked, synthesized in processes of their own, cached."""
