"""A page as a file: HTML as it is, PDF whole, PNG its head, for a chat. The browser of this machine draws them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from loadproof.cli.printing import cannot_write
from loadproof.errors import CouldNotRunError, InputError
from loadproof.pages.file import write_whole

ENDINGS: Final = (".png", ".pdf")
BROWSER: Final = "LOADPROOF_BROWSER"
_NAMES: Final = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge", "msedge"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
_QUIET: Final = (
    *("--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--no-default-browser-check"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
)
_WIDTH_PX: Final = 1000
_HIGHEST_PX: Final = 4000
_LONGEST_S: Final = 60.0
# What decides: the head with its brief, and the section after it.
_HEAD_ONLY: Final = "<style>main > :nth-child(n+3) { display: none } main { padding-bottom: 24px }</style>"
# The page forbids scripts to itself; this copy of it has one, which says how high it is.
_POLICY: Final = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_MEASURE: Final = "<script>document.title = 'px' + document.documentElement.scrollHeight</script>"


def write_page(page: str, target: Path, option: str = "--output") -> None:
    """The page's text as the file that its ending says, whole or not at all.

    Raises InputError where it cannot stand there, CouldNotRunError without a browser or where that draws nothing.
    """
    try:
        if target.suffix in ENDINGS:
            _draw(page, target)
        else:
            write_whole(page, target)
    except OSError as error:
        raise cannot_write(target, option, error) from None


def browser_for(target: Path | None) -> str | None:
    """The browser that would draw this file; None where none is needed. Raises CouldNotRunError, InputError."""
    if target is None or target.suffix not in ENDINGS:
        return None
    named = os.environ.get(BROWSER)
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None and named:
        raise InputError(f"{BROWSER}={named}: is no program; name the one of Chrome, Chromium or Edge")
    if found is None:
        raise CouldNotRunError(
            f"{target}: a picture is drawn by Chrome, Chromium or Edge, and none was found; install one, or name it in "
            f"{BROWSER}; a page as .html needs none"
        )
    return found


def _draw(page: str, target: Path) -> None:
    program = browser_for(target)
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="loadproof-") as folder:
        source, drawn = Path(folder, "page.html"), Path(folder, f"drawn{target.suffix}")
        if target.suffix == ".pdf":
            source.write_text(page, encoding="utf-8")
            _run(program, folder, source, f"--print-to-pdf={drawn}", "--no-pdf-header-footer")
        else:
            head = page.replace("</head>", f"{_HEAD_ONLY}</head>", 1)
            source.write_text(_POLICY.sub("", head).replace("</body>", f"{_MEASURE}</body>"), encoding="utf-8")
            height = re.search(r"<title>px(\d+)</title>", _run(program, folder, source, "--dump-dom", _window(100)))
            source.write_text(head, encoding="utf-8")
            size = _window(min(_HIGHEST_PX, int(height[1]) if height else 900))
            _run(program, folder, source, f"--screenshot={drawn}", size, "--force-device-scale-factor=2")
        if not drawn.is_file():
            raise CouldNotRunError(f"{target}: {program} drew nothing; try another in {BROWSER}, or write .html")
        shutil.move(drawn, target)


def _window(height_px: int) -> str:
    return f"--window-size={_WIDTH_PX},{height_px}"


def _run(program: str, folder: str, source: Path, *options: str) -> str:
    """What it printed. A browser that root starts has no sandbox of its own; the page is ours and fetches nothing."""
    root = ("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
    command = [program, *_QUIET, *root, f"--user-data-dir={folder}/profile", *options, source.as_uri()]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        raise CouldNotRunError(f"{program}: drew nothing within {_LONGEST_S:.0f} s; try another in {BROWSER}") from None
    return done.stdout
