#!/usr/bin/env python3
"""Picture of a run's report or a plan's page: `scripts/screenshot.py RUN_DIR|PAGE.html OUT.png [--dark] [--width W]`.

Needs chromium and chromedriver on PATH; nothing is downloaded. The picture is the top of the page.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import sys
import tempfile
from pathlib import Path

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    sys.exit("scripts/screenshot.py needs selenium: pip install selenium (and chromium, chromedriver on PATH)")

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shown", type=Path, metavar="RUN_DIR|PAGE.html")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--width", type=int, default=1240)
    parser.add_argument("--height", type=int, default=1500, help="0 takes the whole page")
    arguments = parser.parse_args()
    shown: Path = arguments.shown.resolve()
    report = shown / "report.html" if shown.is_dir() else shown
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not report.is_file():
        print(
            f"{report}: not found; render it with `python -m loadproof.bench.report RUN_DIR`, "
            "or with `loadproof plan PROFILE --format html`",
            file=sys.stderr,
        )
        return 2
    if not chromium or not chromedriver:
        print(
            "chromium and chromedriver are needed on PATH (apt-get install chromium chromium-driver)", file=sys.stderr
        )
        return 3
    with tempfile.TemporaryDirectory() as user_data:
        picture = _take(report, chromium, chromedriver, user_data, arguments)
    arguments.picture.write_bytes(picture)
    print(f"{arguments.picture}: {len(picture) / 1024:.0f} KiB")
    return 0


def _take(report: Path, chromium: str, chromedriver: str, user_data: str, arguments: argparse.Namespace) -> bytes:
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={user_data}"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(chromedriver))
    try:
        metrics = {"width": arguments.width, "height": arguments.height or 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if arguments.dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.get(report.as_uri())
        shot = browser.execute_cdp_cmd(
            "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": arguments.height == 0}
        )
        return base64.b64decode(shot["data"])
    finally:
        browser.quit()


if __name__ == "__main__":
    sys.exit(main())
