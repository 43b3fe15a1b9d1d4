"""Runs that are kept, and what they prove."""
