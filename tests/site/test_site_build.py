"""The built site: whole, every link inside it leads somewhere, and nothing in it is fetched from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from site_build import ROOT, mkdocs

DOCS = ROOT / "docs"


class _Page(HTMLParser):
    """A page's ids, links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif "src" in found:
            self.loads.append(found["src"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload", "preconnect", "prefetch"):
            self.loads.append(found.get("href", ""))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    return {file: _Page(file.read_text(encoding="utf-8")) for file in site.rglob("*.html") if file.name != "404.html"}


def test_every_page_of_docs_is_on_the_site(pages: dict[Path, _Page], site: Path) -> None:
    """A Markdown file each, under its own name."""
    assert set(pages) == {_built(page, site) for page in DOCS.rglob("*.md")}


def test_the_site_shows_the_structure_that_code_hosts_show(site: Path) -> None:
    """As many lists, items, blocks, tables and headings on each page as CommonMark sees: none ran into a paragraph."""
    reader = MarkdownIt("commonmark").enable("table")
    different = []
    for page in sorted(DOCS.rglob("*.md")):
        wanted = reader.render(page.read_text(encoding="utf-8"))
        built = _built(page, site).read_text(encoding="utf-8")
        shown = built[built.index("<article") : built.index("</article>")]
        counts = {tag: (_count(tag, wanted), _count(tag, shown)) for tag in ("ul", "ol", "li", "pre", "tr", "h2", "h3")}
        odd = {tag: both for tag, both in counts.items() if both[0] != both[1]}
        if odd:
            different.append(
                f"{page.relative_to(DOCS)}: (wanted, shown) {odd}; a blank line before the list may be missing"
            )
    assert different == []


def _built(page: Path, site: Path) -> Path:
    """A folder's README.md is its index.html."""
    name = "index" if page.stem == "README" else page.stem
    return (site / page.relative_to(DOCS)).with_name(f"{name}.html")


def _count(tag: str, html: str) -> int:
    return len(re.findall(f"<{tag}[ >]", html))


def test_links_inside_the_site_lead_to_a_page_and_a_place_on_it(pages: dict[Path, _Page], site: Path) -> None:
    """Pages, anchors and files, navigation included."""
    broken = []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if target.is_dir():
                target = target / "index.html"
            known = pages.get(target)
            if not target.is_file() or (parts.fragment and known and unquote(parts.fragment) not in known.ids):
                broken.append(f"{file.relative_to(site)}: {link}")
    assert broken == []


def test_places_that_the_readme_links_to_are_on_their_pages(pages: dict[Path, _Page], site: Path) -> None:
    """`docs/cli.md#loadproof-predict` and the like; that the files exist is held by tests/test_docs.py."""
    links = re.findall(r"\]\((docs/[^)#\s]+\.md)#([^)\s]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if link[1] not in pages[_built(ROOT / link[0], site)].ids] == []


def test_pictures_scripts_and_styles_are_the_sites_own(pages: dict[Path, _Page], site: Path) -> None:
    """Each is a file of the site: a page asks nobody else."""
    missing = [
        f"{file.relative_to(site)}: {load}"
        for file, page in pages.items()
        for load in page.loads
        if not load.startswith("data:") and not (file.parent / unquote(urlsplit(load).path)).is_file()
    ]
    assert missing == []


def test_styles_fetch_nothing_from_elsewhere(site: Path) -> None:
    """No font and no picture of another host in a style sheet."""
    found = [
        f"{sheet.name}: {address}"
        for sheet in site.rglob("*.css")
        for address in re.findall(r"url\(\s*[\"']?(https?:[^)\"']+|//[^)\"']+)", sheet.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_links_that_leave_the_site_are_encrypted_and_well_formed(pages: dict[Path, _Page]) -> None:
    """By their form only: https, a host, no blank. Loopback is the local cloud's and may be plain."""
    odd = {
        link
        for page in pages.values()
        for link in page.links
        if (parts := urlsplit(link)).scheme
        and not (parts.scheme == "https" and "." in (parts.hostname or "") and " " not in link)
        and parts.hostname not in ("localhost", "127.0.0.1")
    }
    assert odd == set()


@pytest.mark.parametrize("link", ["absent.md", "other.md#nowhere", "picture.png", "/other.md"])
def test_a_broken_link_ends_the_build(link: str, tmp_path: Path) -> None:
    """A page, a heading, a file that are not there, and a link that only works at a server's root."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# A\n\n[to](other.md#b) [broken]({link})\n", encoding="utf-8")
    (tmp_path / "docs" / "other.md").write_text("# B\n", encoding="utf-8")
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ntheme: {{name: mkdocs}}\nextra_css: []\nnav: [index.md, other.md]\n",
        encoding="utf-8",
    )
    done = mkdocs("--site-dir", str(tmp_path / "built"), config=config)
    assert done.returncode != 0
    assert link.rsplit("#", maxsplit=1)[-1] in done.stderr
