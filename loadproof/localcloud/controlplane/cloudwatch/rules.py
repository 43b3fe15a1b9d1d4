"""Rules of composite alarms: `ALARM("a") AND NOT (OK(b) OR INSUFFICIENT_DATA(c))`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from loadproof.localcloud.controlplane.cloudwatch.expressions import TokenReader, refuse

_TOKEN = re.compile(r"\s*(?:(?P<sign>[()])|\"(?P<quoted>[^\"]*)\"|'(?P<single>[^']*)'|(?P<word>[^\s()\"']+))")
_STATES = ("ALARM", "OK", "INSUFFICIENT_DATA")
StateOf = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Rule:
    """`holds(state_of)` says whether the rule is met; `alarms` are the names it looks at."""

    alarms: frozenset[str]
    holds: Callable[[StateOf], bool]


def parse_rule(text: str) -> Rule:
    """Raises ValidationError. Alarms may be named or given by ARN."""
    tokens: list[str] = []
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise refuse(f"AlarmRule '{text}': cannot read `{text[at:].strip()[:20]}`.")
        tokens.append(found.group().strip())
        at = found.end()
    return _RuleParser(f"AlarmRule '{text}'", tokens).whole()


class _RuleParser(TokenReader):
    def __init__(self, text: str, tokens: list[str]) -> None:
        super().__init__(text, tokens)
        self._names: set[str] = set()

    def whole(self) -> Rule:
        holds = self._either()
        self.expect("")
        return Rule(frozenset(self._names), holds)

    def _either(self) -> Callable[[StateOf], bool]:
        parts = [self._both()]
        while self.taken("OR"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda state_of: any(part(state_of) for part in parts)

    def _both(self) -> Callable[[StateOf], bool]:
        parts = [self._one()]
        while self.taken("AND"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda state_of: all(part(state_of) for part in parts)

    def _one(self) -> Callable[[StateOf], bool]:
        if self.taken("NOT"):
            inner = self._one()
            return lambda state_of: not inner(state_of)
        if self.taken("("):
            grouped = self._either()
            self.expect(")")
            return grouped
        word = self.next()
        if word in ("TRUE", "FALSE"):
            return lambda state_of: word == "TRUE"
        if word not in _STATES:
            raise self.fault(f"the local cloud knows {', '.join(_STATES)}, TRUE, FALSE, AND, OR, NOT; found `{word}`")
        self.expect("(")
        name = self.next().strip("\"'").rpartition(":alarm:")[2]
        self.expect(")")
        self._names.add(name)
        return lambda state_of: state_of(name) == word
