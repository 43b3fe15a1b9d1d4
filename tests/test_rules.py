"""The engine of rules: what is decorated in a book's package runs and has its page, and nothing else can be a rule."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import run_process

from loadproof.preflight.rules import RULES as PREFLIGHT
from loadproof.profiles.checks import RULES as CHECKS
from loadproof.review.rules import RULES as FINDINGS
from loadproof.rules import Finding, Found, Rulebook
from loadproof.templates import RULES as TEMPLATE_RULES

ROOT = Path(__file__).resolve().parents[1]
WORDS = {"reason": "It misleads.", "mend": "Take it out."}
PAGES = {
    "checks.md": CHECKS,
    "template-checks.md": TEMPLATE_RULES,
    "review-findings.md": FINDINGS,
    "preflight-findings.md": PREFLIGHT,
}
BOOK = """
from loadproof.rules import Found, Rulebook
RULES = Rulebook("LX", "sample", str, "error")
rule = RULES.rule
"""

# (the book's package, a module that a colleague drops into it, how it is run and which page is written)
DROPPED_IN = [
    pytest.param(
        "profiles/checks",
        'from loadproof.profiles.checks.rule import Found, rule\n@rule("LP499", "Dropped in", reason="?", mend="!")\n'
        'def dropped_in(subject):\n    yield Found(("name",), "was looked at", "take it out")\n',
        "from loadproof.profiles import check_file; print(*check_file(Path(sys.argv[1])).problems)\n"
        "from reference_rules import checks_page as page",
        "LP499 name: was looked at; take it out",
        id="LP499",
    ),
    pytest.param(
        "templates",
        'from loadproof.templates.rule import Found, rule\n@rule("LS199", "Dropped in", reason="?", mend="!")\n'
        'def dropped_in(template):\n    yield Found("Queue", "was looked at", "take it out")\n',
        "from loadproof.templates import check_template; print(*check_template({}, {}))\n"
        "from reference_rules import template_checks_page as page",
        "LS199 Queue: was looked at; take it out",
        id="LS199",
    ),
    pytest.param(
        "review/rules",
        'from loadproof.review.rules.rule import Found, rule\n@rule("LR069", "Dropped in", reason="?", mend="!")\n'
        'def dropped_in(change):\n    yield Found("Queue", "was looked at", "take it out")\n',
        "from loadproof.review.assemble import review_pair\nfrom loadproof.review.model import Pair\n"
        'print(*review_pair(Pair("prod", "chat", None, None), ()).findings)\n'
        "from reference_rules import findings_page as page",
        "LR069 (risk) Queue: was looked at; take it out",
        id="LR069",
    ),
    pytest.param(
        "preflight/rules",
        "from loadproof.preflight.rules.rule import Found, stack_rule\n"
        '@stack_rule("LA149", "Dropped in", reason="?", mend="!")\n'
        'def dropped_in(need):\n    yield Found(need.name, "was looked at", "take it out")\n',
        "from loadproof.preflight.needs import Stack\nfrom loadproof.preflight.rules import RULES\n"
        "print(*RULES.by_code['LA149'].findings(Stack(None, 'Queue')))\n"
        "from reference_rules import preflight_page as page",
        "LA149 Queue: was looked at; take it out",
        id="LA149",
    ),
]


@pytest.mark.parametrize(("package", "module", "run", "said"), DROPPED_IN)
def test_a_module_that_is_dropped_into_a_package_is_run_and_on_its_page(
    package: str, module: str, run: str, said: str, tmp_path: Path
) -> None:
    """One new file is all: nothing imports it by name and no list has it."""
    copied = tmp_path / "loadproof"
    caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "loadproof", copied, copy_function=os.symlink, ignore=caches)
    (copied / package / "dropped_in.py").write_text(module, encoding="utf-8")
    profile = ROOT / "tests" / "profiles" / "good" / "two-models.yaml"
    done = run_process(
        [sys.executable, "-c", f"import sys\nfrom pathlib import Path\n{run}\nprint(page())", str(profile)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT / "scripts")))},
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert f"### {said[:5]}: Dropped in" in done.stdout


def test_codes_are_unique_across_the_books() -> None:
    """A number names one rule, wherever it is read."""
    codes = [rule.code for book in PAGES.values() for rule in book]
    assert len(codes) == len(set(codes)) > 150


@pytest.mark.parametrize("book", PAGES.values(), ids=PAGES)
def test_no_function_that_looks_like_a_rule_is_left_undecorated(book: Rulebook[Any, Any, Any]) -> None:
    """Public, of one subject, yielding `Found`: whoever forgets the decorator is told."""
    rules = [rule.function for rule in book]
    (package,) = {function.__module__.rpartition(".")[0] for function in rules} - {"loadproof"}  # of reported_elsewhere
    modules = [module for name, module in sys.modules.items() if name.rpartition(".")[0] == package]
    alike = [
        function
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
        if function.__annotations__.get("return") == "Iterator[Found]" and len(function.__annotations__) == 2
    ]
    assert len(alike) > 10
    assert [function for function in alike if function not in rules] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_rule_is_on_its_page_in_the_order_of_codes(page: str) -> None:
    """And nothing else is: a page promises no rule that is not there."""
    anchors = re.findall(r'^<a id="(\w+)"></a>$', (ROOT / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert anchors == sorted(rule.code.lower() for rule in PAGES[page])


@pytest.mark.parametrize("book", PAGES.values(), ids=PAGES)
def test_every_rule_says_what_a_page_needs(book: Rulebook[Any, Any, Any]) -> None:
    """A title, why it matters, and how to mend it: the last two as sentences."""
    for rule in book:
        assert len(rule.title) > 4, rule.code
        assert len(rule.reason) > 12 and rule.reason.endswith((".", ")")), rule.code
        assert len(rule.mend) > 10 and rule.mend.endswith((".", ")")), rule.code


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Rulebook[str, str, str]]]:
    """Makes a package `sample` of modules by name, and gives its book."""

    def made(**modules: str) -> Rulebook[str, str, str]:
        package = tmp_path / "sample"
        package.mkdir()
        for name, text in ({"__init__": "", "book": BOOK} | modules).items():
            file = package / f"{name.replace('__of__', '/')}.py"
            if file.parent != package:
                file.parent.mkdir()
                (file.parent / "__init__.py").touch()
            file.write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        from sample.book import RULES  # type: ignore[import-not-found]

        book: Rulebook[str, str, str] = RULES
        return book

    yield made
    for name in [name for name in sys.modules if name.partition(".")[0] == "sample"]:
        del sys.modules[name]


def of(code: str, title: str = "Vowel", decorator: str = "rule", body: str = 'yield Found(seen, "is it", "go")') -> str:
    """A module with one rule."""
    imports = f"from sample.book import RULES, Found, rule\nnumbers = RULES.over(int)\n@{decorator}"
    return f'{imports}("{code}", "{title}", reason="?", mend="!")\ndef look(seen):\n    {body}\n'


def test_a_rule_in_a_folder_below_is_refused_not_overlooked(sample: Any) -> None:
    """Its numbers go by the package: where it stands decides who finds it."""
    with pytest.raises(ValueError, match=r"LX007 stands in sample\.deep\.vowels: put it into a module of sample"):
        dict(sample(deep__of__vowels=of("LX007")).by_code)


def test_rules_come_in_the_order_of_their_codes_whatever_module_they_stand_in(sample: Any) -> None:
    """So do their findings, and the lists that formats and pages make of them."""
    book = sample(a=of("LX020"), b=of("LX003"), z=of("LX010"))
    assert [rule.code for rule in book] == list(book.by_code) == ["LX003", "LX010", "LX020"]


def test_a_finding_has_the_number_of_its_rule_and_the_severity_that_is_nearest(sample: Any) -> None:
    """The finding's own, else the rule's, else the book's."""
    own = 'yield Found(seen, "is it", "go", "info", "page 3")'
    of_rule = of("LX002").replace("reason=", 'severity="warning", reason=')
    book = sample(a=of("LX001"), b=of_rule, c=of("LX003", body=own))
    assert [one for rule in book for one in rule.findings("a")] == [
        Finding("LX001", "error", "a", "is it", "go"),
        Finding("LX002", "warning", "a", "is it", "go"),
        Finding("LX003", "info", "a", "is it", "go", "page 3"),
    ]


def test_a_rule_is_asked_only_about_what_it_takes(sample: Any) -> None:
    """One book may look at several kinds of thing, as checks at profiles, models and environments."""
    book = sample(a=of("LX001"), b=of("LX002", decorator="numbers.rule"))
    assert [one.code for rule in book for one in rule.findings("a")] == ["LX001"]
    assert [one.code for rule in book for one in rule.findings(7)] == ["LX002"]


def test_a_code_that_is_reported_elsewhere_has_its_words_and_finds_nothing(sample: Any) -> None:
    """As those of reading a file: the reader reports them."""
    alone = 'from sample.book import RULES\nRULES.reported_elsewhere("LX001", "Vowel", reason="?", mend="!")\n'
    (rule,) = sample(a=alone)
    assert (rule.title, rule.severity) == ("Vowel", "error")
    assert [one for subject in ("a", 7, None) for one in rule.findings(subject)] == []


def test_a_rule_outside_of_its_books_package_is_refused() -> None:
    """Nobody would run it."""
    book: Rulebook[str, str, str] = Rulebook("LX", "loadproof.templates", str, "error")
    with pytest.raises(ValueError, match=r"LX001 stands in .*test_rules: put it into a module of loadproof\.templates"):

        @book.rule("LX001", "Vowel", **WORDS)
        def look(seen: str) -> Iterator[Found[str, str]]:
            yield Found(seen, "is it", "go")


def test_a_code_that_is_given_twice_is_refused(sample: Any) -> None:
    """With the titles of both, so that the other is found."""
    book = sample(a=of("LX001"), b=of("LX001", "Consonant"))
    with pytest.raises(ValueError, match="LX001 is given twice: Vowel, Consonant"):
        list(book)


@pytest.mark.parametrize("code", ["LP001", "LX01", "LX0001", "lx001", "LX001 "])
def test_a_code_of_another_form_is_refused(code: str, sample: Any) -> None:
    """The prefix is the book's own, so codes of two books never meet."""
    book = sample(a=of(code))
    with pytest.raises(ValueError, match="expected LX and three digits"):
        list(book)


def test_a_module_that_cannot_be_imported_is_not_passed_over(sample: Any) -> None:
    """Not at the second reading either: half a book would check half of what it promises."""
    book = sample(a=of("LX001"), b="import no_such_module")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            list(book)


def test_a_finding_reads_as_one_line() -> None:
    """Code, severity unless it is an error, place unless it is the whole, what, and how to mend it."""
    assert str(Finding("LS006", "warning", "", "1 store", "add a key")) == "LS006 (warning) 1 store; add a key"
    assert str(Finding("LS001", "error", "Model", "no tag", "add one")) == "LS001 Model: no tag; add one"
    with_need = Finding("LA101", "error", "quota", "is 0", "ask for it", needed="4")
    assert str(with_need) == "LA101 quota: is 0; needed: 4; ask for it"


@pytest.mark.parametrize(
    ("severity", "acknowledged", "stops"), [("error", None, True), ("error", "agreed", False), ("warning", None, False)]
)
def test_an_error_that_nobody_acknowledged_stops(severity: str, acknowledged: str | None, stops: bool) -> None:
    """A warning never does."""
    assert Finding("LS001", severity, "Model", "no tag", "add one", acknowledged=acknowledged).stops is stops
