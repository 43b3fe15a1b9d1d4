"""The editors' schema accepts what the loader accepts, and marks what it can of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from profiles_samples import BAD, GOOD, REPOSITORY

from loadproof.profiles.json_schema import environment_schema, profile_schema

PROFILE = Draft202012Validator(profile_schema())
ENVIRONMENT = Draft202012Validator(environment_schema())
FILES = sorted([*GOOD.glob("*.y*ml"), *(REPOSITORY / "deploy_profiles").rglob("*.yaml")])


def test_both_are_valid_schemas_with_standard_keywords_only() -> None:
    """The dialect's own meta-schema accepts them, and nothing of pydantic's or ours is left in."""
    for schema in (profile_schema(), environment_schema()):
        Draft202012Validator.check_schema(schema)
        assert not {"discriminator", "variable"} & set(keywords(schema))


def keywords(node: object) -> list[str]:
    if isinstance(node, list):
        return [key for item in node for key in keywords(item)]
    if not isinstance(node, dict):
        return []
    inner = [key for name, child in node.items() if name not in ("properties", "$defs") for key in keywords(child)]
    named = [
        key for name in ("properties", "$defs") for child in node.get(name, {}).values() for key in keywords(child)
    ]
    return [*node, *inner, *named]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_what_the_loader_accepts_the_schema_accepts(file: Path) -> None:
    """Whole profiles, and children that leave out what their parent has."""
    validator = ENVIRONMENT if file.name == "environment.yaml" else PROFILE
    assert [error.message for error in validator.iter_errors(yaml.safe_load(file.read_text()))] == []


@pytest.mark.parametrize("code", ["LP101", "LP102", "LP103", "LP104", "LP105", "LP106"])
def test_shape_problems_are_marked_in_the_editor(code: str) -> None:
    """Unknown and missing keys, wrong kinds, forms, bounds and words."""
    assert not PROFILE.is_valid(yaml.safe_load((BAD / f"{code}.yaml").read_text()))


def test_a_setting_names_its_variable() -> None:
    """Hovering over max_input_tokens shows MAX_INPUT_TOKENS."""
    fields = profile_schema()["$defs"]["TgiSettings"]["properties"]
    assert fields["max_input_tokens"]["description"] == "longest prompt accepted, in tokens (MAX_INPUT_TOKENS)"
