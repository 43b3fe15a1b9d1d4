"""The builder and pydantic give the same verdict, whatever is done to a good profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles_samples import CHAT, GOOD
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from loadproof.bench.from_profile import loads_of
from loadproof.profiles.building import WRONG, build_part
from loadproof.profiles.checks import RULES, check_rules
from loadproof.profiles.loader import check_file
from loadproof.profiles.reader import read_yaml
from loadproof.profiles.schema import Environment, Part, Profile
from loadproof.profiles.schema.workload import TokenDistribution
from loadproof.profiles.shapes import fields_of, shape_of
from loadproof.profiles.tree import Problems

ON_BEDROCK = Path(__file__).parents[1] / "fuzz" / "on-bedrock.yaml"

WHOLE = [
    yaml.safe_load(file.read_text())
    for file in sorted(GOOD.glob("*.yaml"))
    if "extends" not in file.read_text() and file.name != "environment.yaml"
]
ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    3,
    2.5,
    10**15,
    "",
    "x",
    "auto",
    "tgi",
    "ml.g5.xlarge",
    [],
    [1],
    {},
]
ODD_KEYS = ["type", "family", "min", "max", "enabled", "wrong", "id", "settings", "stddev", "x y"]


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] + [inner for key, child in children for inner in paths(child, (*path, key))]


def altered(value: Any, path: tuple[Any, ...], change: Any, key: str | None) -> Any:
    """A copy of `value` with the part at `path` replaced, or with `key` added to it, or (change is ...) deleted."""
    if not path:
        return {**value, key: change} if key is not None and isinstance(value, dict) else change
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and change is ...:
        del copy[path[0]]
    else:
        copy[path[0]] = altered(copy[path[0]], path[1:], change, key)
    return copy


def tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: tuples(item) for key, item in value.items()}
    return tuple(tuples(item) for item in value) if isinstance(value, list) else value


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    value = draw(st.sampled_from(WHOLE))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in paths(value) if path] or [("name",)]))
        change = draw(st.one_of(st.sampled_from(ODD_VALUES), st.just(...)))
        key = draw(st.one_of(st.none(), st.sampled_from(ODD_KEYS))) if change is not ... else None
        value = altered(value, path, change, key)
    return value


@settings(max_examples=250, deadline=None)
@given(mutated())
def test_builder_and_pydantic_agree(value: Any) -> None:
    """No shape problem exactly when pydantic's strict validation passes; then both give the same profile."""
    problems = Problems()
    tree = read_yaml(json.dumps(value).encode(), "f", problems)  # JSON is YAML whose values are what they look like
    assert tree is not None and not problems.found
    built = build_part(Profile, tree, problems)
    try:
        meant = Profile.model_validate(tuples(value))
    except ValidationError:
        assert problems.found
        if built is not WRONG:
            check_rules(built, tree, problems, None)  # rules run on what is left, and never raise
        return
    assert not problems.found
    assert built == meant
    check_rules(built, tree, problems, None)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_file_never_raises(data: st.DataObject) -> None:
    """Characters cut out of, put into or doubled in a good file give problems or a profile, no exception."""
    import tempfile

    step = "{type: step, metric: invocations_per_copy, threshold: 1, steps: [{at: 0, add_copies: 1}]}"
    text = CHAT + f"scaling:\n  policies:\n    - {step}\n"
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(at, min(len(text), at + 20)))
        put = data.draw(
            st.sampled_from(["", " ", "\n", ":", "- ", "'", "yes", "1e5", "&a", "{", "]", "é", text[at:end] * 2])
        )
        text = text[:at] + put + text[end:]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "chat.yaml"
        file.write_text(text, encoding="utf-8")
        checked = check_file(file)
        assert checked.ok or checked.problems


def test_every_field_of_the_schema_has_a_shape() -> None:
    """A field whose type the grammar does not know fails here, not in front of a user."""
    seen: set[type[Part]] = set()

    def visit(model: type[Part]) -> None:
        if model in seen:
            return
        seen.add(model)
        fields_of(model)
        for inner in Part.__subclasses__():
            visit(inner)

    visit(Profile)
    visit(Environment)
    assert len(seen) > 30


def test_a_wrong_field_keeps_only_its_own_rules_quiet(tmp_path: Path) -> None:
    """Rules that need a wrong field are passed over; all others still speak."""
    (tmp_path / "chat.yaml").write_text(
        CHAT.replace("at_concurrency: 4", 'at_concurrency: "6"').replace(
            "max_total_tokens: 4096", "max_total_tokens: 1024"
        )
    )
    problems = check_file(tmp_path / "chat.yaml").problems
    assert [(problem.code, problem.line) for problem in problems] == [("LP230", 11), ("LP103", 15)]


def test_a_rule_that_breaks_is_not_mistaken_for_a_wrong_field(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An AttributeError of the rule's own making is raised, not swallowed."""
    from dataclasses import replace

    from loadproof.profiles import checks

    broken = replace(next(rule for rule in RULES if rule.code == "LP204"), function=lambda subject: subject.nothing)
    monkeypatch.setattr(checks, "RULES", (broken,))
    (tmp_path / "chat.yaml").write_text(CHAT)
    with pytest.raises(AttributeError, match="nothing"):
        check_file(tmp_path / "chat.yaml")


def test_a_list_past_a_thousand_items_is_told_once(tmp_path: Path) -> None:
    """80,000 empty components are one problem of the list, and only the first thousand are looked into."""
    (tmp_path / "chat.yaml").write_text(CHAT + f"components: [{'{},' * 80_000}]\n")
    checked = check_file(tmp_path / "chat.yaml")
    assert len(checked.problems) + checked.suppressed == 3 * 1000 + 1


def test_texts_say_only_the_bound_they_have(tmp_path: Path) -> None:
    """A name of 41 characters is told `at most 40`, and a null is not to be put in quotes."""
    for written, said in [
        ("x" * 41, "found text of 41 characters, allowed are at most 40 characters; shorten it"),
        ("null", "found null; write the value, or delete the key"),
    ]:
        (tmp_path / "chat.yaml").write_text(CHAT.replace("name: chat", f"name: {written}"))
        (problem,) = check_file(tmp_path / "chat.yaml").problems
        assert str(problem).endswith(said)


def test_a_misspelt_optional_key_is_one_mistake(tmp_path: Path) -> None:
    """`instanceType` is told once: nothing says that `instance_type` is missing."""
    (tmp_path / "chat.yaml").write_text(CHAT.replace("instance_type:", "instanceType:"))
    (problem,) = check_file(tmp_path / "chat.yaml").problems
    assert (problem.code, problem.mend) == ("LP101", "did you mean `instance_type`?")


def test_a_callback_that_is_no_queue_or_topic_is_told_at_its_place(tmp_path: Path) -> None:
    """What is wrong with one address is said where it stands, with the form it has."""
    (tmp_path / "chat.yaml").write_text(CHAT + "buffer:\n  callbacks: [done]\n")
    (problem,) = check_file(tmp_path / "chat.yaml").problems
    assert str(problem).endswith(
        "LP104 buffer.callbacks[0]: expected the ARN of a standard queue or topic, found `done`; "
        "write it like arn:aws:sqs:us-east-1:123456789012:done"
    )


def test_a_constraint_that_the_grammar_does_not_know_is_refused() -> None:
    """A pattern given by Field alone would be passed over in silence, and any text taken for good."""
    with pytest.raises(TypeError, match="which the grammar does not know"):
        shape_of(str, [FieldInfo(annotation=str, pattern="^a$")])


@pytest.mark.parametrize(
    ("written", "levels"),
    [
        ("[1, 2, 4]", (1, 2, 4)),
        ("4", (4,)),
        ('"1,2, 4"', (1, 2, 4)),
        ("1..32", (1, 2, 4, 8, 16, 32)),
        ("1..11", (1, 2, 4, 8, 11)),
        ('"4"', (4,)),
    ],
)
def test_levels_take_the_forms_that_the_option_takes(tmp_path: Path, written: str, levels: tuple[int, ...]) -> None:
    """A list, one level, text with commas, and a span that doubles."""
    file = tmp_path / "chat.yaml"
    file.write_text(f"{CHAT}benchmark: {{concurrency: {written}}}\n", encoding="utf-8")
    profile = check_file(file).profile
    assert isinstance(profile, Profile)
    assert profile.benchmark.concurrency == levels


@pytest.mark.parametrize(
    ("written", "counts"),
    [
        ("normal:512:64", TokenDistribution(distribution="normal", mean=512.0, stddev=64.0)),
        ("lognormal:512:700", TokenDistribution(distribution="lognormal", mean=512.0, stddev=700.0)),
        ("uniform:128:1024", TokenDistribution(distribution="uniform", min=128, max=1024)),
        ("256", 256),
    ],
)
def test_lengths_take_the_forms_that_the_options_take(tmp_path: Path, written: str, counts: object) -> None:
    """A number, and distributions as text."""
    file = tmp_path / "chat.yaml"
    file.write_text(f"{CHAT.partition('workload:')[0]}workload: {{input_tokens: {written}, output_tokens: 8}}\n")
    profile = check_file(file).profile
    assert isinstance(profile, Profile)
    assert profile.workload.input_tokens == counts


def test_a_workload_may_be_its_name_alone(tmp_path: Path) -> None:
    """As `--workload classify-256-32`: 256 tokens in, 32 out."""
    file = tmp_path / "chat.yaml"
    file.write_text(f"{CHAT.partition('workload:')[0]}workload: classify-256-32\n")
    profile = check_file(file).profile
    assert isinstance(profile, Profile)
    assert (profile.workload.name, profile.workload.input_tokens) == ("classify-256-32", 256)


@pytest.mark.parametrize(
    ("written", "loads"),
    [
        ("rate: 1..6", [("poisson", rate, 32) for rate in (1.0, 2.0, 4.0, 6.0)]),
        ('rate: "1,2.5"', [("poisson", 1.0, 32), ("poisson", 2.5, 32)]),
        ("rate: [0.5]", [("poisson", 0.5, 32)]),
        ('phases: ["process=constant,requests_per_s=2,requests=90"]', [("constant", 2.0, 90)]),
    ],
)
def test_open_levels_take_the_forms_that_the_options_take(tmp_path: Path, written: str, loads: object) -> None:
    """Rates as `--rate` takes them, each a Poisson level of requests_per_level; phases as `--phase` takes them."""
    file = tmp_path / "chat.yaml"
    file.write_text(f"{CHAT}benchmark: {{{written}}}\n", encoding="utf-8")
    profile = check_file(file).profile
    assert isinstance(profile, Profile)
    assert [(load.process, load.requests_per_s, load.requests) for load in loads_of(profile, file)] == loads


def test_rates_and_phases_together_are_refused(tmp_path: Path) -> None:
    """Either would be dropped in silence."""
    file = tmp_path / "chat.yaml"
    file.write_text(f'{CHAT}benchmark: {{rate: 2, phases: ["concurrency=4,requests=9"]}}\n', encoding="utf-8")
    assert "LP255 benchmark.rate: both `rate` and `phases` are given" in str(check_file(file).problems[0])


def test_a_workload_whose_name_is_wrong_is_told_and_no_rule_asks_for_its_sizes(tmp_path: Path) -> None:
    """Sizes may be left out beside a name: with a misspelt one, or none at all, one finding each and no traceback."""
    file = tmp_path / "chat.yaml"
    for name, codes in (("chatty", ["LP106"]), ("null", ["LP102", "LP102"]), ("5", ["LP106"])):
        file.write_text(CHAT.partition("workload:")[0] + f"workload:\n  name: {name}\n")
        assert [problem.code for problem in check_file(file).problems] == codes


def test_a_conversation_that_outgrows_bedrocks_context_is_told(tmp_path: Path) -> None:
    """Nova Lite reads 300,000 tokens: turn 31 of 9,000 and 900 tokens has 31 x 9,000 + 30 x 900 = 306,000."""
    text = ON_BEDROCK.read_text().replace("input_tokens: 256, output_tokens: 64, turns: 3", "{}")
    file = tmp_path / "on-bedrock.yaml"
    said = "turn 31 of 31 has 306,000 prompt tokens, with all before it, and 900 of answer: over the context of 300,000"
    for turns, told in ((30, []), (31, [said])):
        file.write_text(text.replace("{}", f"input_tokens: 9000, output_tokens: 900, turns: {turns}"))
        found = [problem.message for problem in check_file(file).problems if problem.code == "LP296"]
        assert [message.partition(" of amazon")[0] for message in found] == told
