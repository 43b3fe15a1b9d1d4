"""The pages people read: links lead somewhere, and every decision can be found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_repository_resolve(page: Path) -> None:
    """Every relative link names a file that exists."""
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert broken == []


def anchors(page: Path) -> set[str]:
    """What GitHub makes of a page's headings (lower case, dashes for blanks, no punctuation), and those written out."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found, seen = set(re.findall(r"""<a (?:id|name)="([^"]+)""", text)), dict[str, int]()
    for heading in re.findall(r"^#+ +(.*?)#*$", text, re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        again = seen.setdefault(slug, 0)
        found.add(f"{slug}-{again}" if again else slug)
        seen[slug] += 1
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_into_pages_have_their_anchor(page: Path) -> None:
    """As GitHub shows them: `page.md#anchor`, and `#anchor` of the page itself."""
    links = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    named = [(page.parent / link if link else page, anchor) for link, anchor in links if "://" not in link]
    assert [(file.name, anchor) for file, anchor in named if file.suffix == ".md" and anchor not in anchors(file)] == []


def test_decisions_are_numbered_without_gaps_and_listed() -> None:
    """0001, 0002, … each once, each with its number as heading, and each in the index."""
    index = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    for number, page in enumerate(DECISIONS, start=1):
        assert page.name.startswith(f"{number:04d}-")
        assert page.read_text(encoding="utf-8").startswith(f"# {number}. ")
        assert f"(decisions/{page.name})" in index


def test_make_targets_and_verbs_of_the_readme_exist() -> None:
    """Whatever the README tells to `make`, the Makefile makes; whatever `loadproof` verb it names is documented."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    reference = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake ([a-z][a-z-]+)", readme)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for verb in set(re.findall(r"(?:^|`|\$ )loadproof ([a-z]+)", readme, re.MULTILINE)):
        assert f"## loadproof {verb}\n" in reference, verb


def test_every_test_that_the_threat_model_leans_on_exists() -> None:
    """By its file and its name; each asset has one at least."""
    page = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    rows = page.partition("## What, and what holds it")[2].partition("## Left open")[0]
    assets = [row for row in rows.splitlines() if row.startswith("| ") and not row.startswith("| asset")]
    assert len(assets) > 10
    for row in assets:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        for file, test in named:
            assert re.search(rf"^def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), (file, test)
