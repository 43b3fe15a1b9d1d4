"""Puts this folder on the path of tests below it: pytest does so with a conftest's folder."""
