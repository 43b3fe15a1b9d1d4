"""What every page, comment and table begins with, for somebody who decides: the promise, its cost, how sure, what next.

Names of profiles, runs and machines stand in it as they are: whoever shows it escapes. Commands stand in backticks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from loadproof.pages.wording import code_in_html

_PLAIN: Final = re.compile(r"[\w./][\w./-]{0,119}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Brief:
    """Four answers, each one line."""

    promise: str
    """whether the objectives are met, and by how much"""
    cost: str
    """USD a month at the expected load"""
    sure: str
    """what the figures rest on, and how far they may be off"""
    next: str
    """the one thing to do now"""

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """(what is asked, the answer), in reading order."""
        return (
            ("Promise", self.promise),
            ("Cost a month", self.cost),
            ("How sure", self.sure),
            ("Next", self.next),
        )


def brief_in_html(brief: Brief, *, promise: bool = True) -> Markup:
    """A description list; without the promise where it stands above already."""
    rows = brief.rows if promise else brief.rows[1:]
    items = (Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(asked, code_in_html(said)) for asked, said in rows)
    return Markup('<dl class="brief">{}</dl>').format(Markup("").join(items))


def in_a_command(name: str, otherwise: str = "PROFILE") -> str:
    """A profile's or a run's name for a command that readers copy; `otherwise` for one that a shell could misread."""
    return name if _PLAIN.fullmatch(name) else otherwise
