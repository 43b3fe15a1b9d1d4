"""The book of findings of a review (LR001 ...): what rules over both sides find."""

from __future__ import annotations

from typing import Final, TypeAlias

from loadproof import rules
from loadproof.review.model import Severity
from loadproof.review.rules.change import Change

Found: TypeAlias = rules.Found[str, Severity]  # at the field of the profile that explains it, else at a logical id

RULES: Final = rules.Rulebook[Change, str, Severity]("LR", "loadproof.review.rules", Change, "risk")
rule = RULES.rule
