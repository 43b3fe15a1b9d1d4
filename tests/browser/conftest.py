"""One headless Chromium for the browser tests: the system's, driven without downloading anything."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from page_checks import samples_of
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def write_sample() -> Callable[..., Path]:
    """The made-up run that the report's own tests use."""
    write: Callable[..., Path] = samples_of("bench/report/sample_run.py").write_sample
    return write


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Chromium with console and network logs on. Missing, it fails where CI is set and is skipped elsewhere."""
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not chromedriver:
        reason = "chromium and chromedriver are not on PATH (apt-get install chromium chromium-driver)"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason)
        pytest.skip(reason)
    options: Any = webdriver.ChromeOptions()
    options.binary_location = chromium
    # Chromium releases differ in the window they open by themselves; on a narrow one the site hides its search.
    for flag in (*FLAGS, "--window-size=1280,900", f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def viewport(browser: webdriver.Chrome) -> Callable[[int], AbstractContextManager[None]]:
    """`with viewport(width):` shows the page that wide."""

    @contextmanager
    def of_width(width: int) -> Iterator[None]:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            yield
        finally:
            browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    return of_width
