"""The site in a browser: search finds, its hit leads there, nothing leaves loopback, nothing complains."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

pytestmark = pytest.mark.browser
Viewport = Callable[[int], AbstractContextManager[None]]
WAIT_S = 60  # of a machine that does other things too
HITS = ".md-search-result__link"


def search(driver: webdriver.Chrome, words: str) -> list[str]:
    """Type `words` as a reader does; the addresses of the hits, best first."""
    field = driver.find_element(By.CSS_SELECTOR, "input.md-search__input")
    driver.execute_script("arguments[0].focus()", field)
    field.send_keys(words)
    WebDriverWait(driver, WAIT_S).until(lambda shown: shown.find_elements(By.CSS_SELECTOR, HITS))
    return [hit.get_attribute("href") or "" for hit in driver.find_elements(By.CSS_SELECTOR, HITS)]


def test_search_finds_a_page_by_words_in_it_and_leads_there(browser: webdriver.Chrome, address: str) -> None:
    """`visibility timeout` is in several pages; Enter on the best hit opens one that has the words."""
    browser.get(f"{address}/index.html")
    hits = search(browser, "visibility timeout")
    assert any(urlsplit(hit).path in ("/buffer.html", "/runbook.html", "/reference-profile.html") for hit in hits)
    browser.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys(Keys.ENTER)
    WebDriverWait(browser, WAIT_S).until(lambda shown: urlsplit(shown.current_url).path != "/index.html")
    text = browser.find_element(By.CSS_SELECTOR, "article").get_attribute("textContent") or ""
    assert "visibility" in text.lower()


@pytest.mark.parametrize(
    ("words", "path"),
    [("LP204", "/checks.html"), ("at_concurrency", "/reference-profile.html"), ("knee", "/plan.html")],
)
def test_search_finds_codes_keys_and_words(browser: webdriver.Chrome, address: str, words: str, path: str) -> None:
    """A check by its number, a key of the profile by its name, a figure by its word."""
    browser.get(f"{address}/index.html")
    assert path in {urlsplit(hit).path for hit in search(browser, words)}


def test_nothing_is_asked_of_another_host(browser: webdriver.Chrome, address: str) -> None:
    """Of every request that reading and searching make, by the browser's own log; the console stays empty."""
    for kind in ("performance", "browser"):
        browser.get_log(kind)  # what came before
    browser.get(f"{address}/plan.html")
    search(browser, "cost")
    entries: list[Any] = [json.loads(row["message"])["message"] for row in browser.get_log("performance")]
    asked = [row["params"]["request"]["url"] for row in entries if row["method"] == "Network.requestWillBeSent"]
    assert any("search_index.json" in url for url in asked)
    assert {urlsplit(url).netloc for url in asked if urlsplit(url).scheme in ("http", "https")} == {
        urlsplit(address).netloc
    }
    names = browser.execute_script("return performance.getEntriesByType('resource').map(one => one.name)")
    assert {urlsplit(name).hostname for name in names} == {"127.0.0.1"}
    assert [row["message"] for row in browser.get_log("browser")] == []


@pytest.mark.parametrize("page", ["index", "tour", "reference-profile", "comparison", "checks", "guides/on-call"])
def test_a_narrow_page_does_not_scroll_sideways(
    browser: webdriver.Chrome, address: str, viewport: Viewport, page: str
) -> None:
    """390 px wide, wide tables scroll inside their own frame."""
    with viewport(390):
        browser.get(f"{address}/{page}.html")
        width = browser.execute_script("return document.documentElement.scrollWidth")
    assert width <= 390
