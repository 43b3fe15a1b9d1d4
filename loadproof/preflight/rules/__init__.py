"""Numbered rules over an account (LA001 ...): what a deployment needs there and does not find."""

from loadproof.preflight.rules.rule import RULES, SEVERITIES, UNKNOWN, Finding, Severity

__all__ = ["RULES", "SEVERITIES", "UNKNOWN", "Finding", "Severity"]
