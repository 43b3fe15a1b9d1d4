"""Loadproof: LLM endpoints as code, proven under load."""
