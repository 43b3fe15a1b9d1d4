"""Secrets are never shown: not in text, not in JSON, not in SARIF, wherever in a file they stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles_samples import CHAT

from loadproof import catalog
from loadproof.cli.check.formats import CheckedFiles, as_json, as_sarif, as_text
from loadproof.profiles import check_file
from loadproof.profiles.secrets import is_secret_key, is_secret_value, shown, shown_path

CANARY = "hf_CanaryCanaryCanaryCanaryCanary12"
NUMERIC_CANARY = "0918273645"

PLACES = [
    "description: {canary}\n",
    "name: {canary}\n",
    "{canary}: 1\n",
    "wrong:\n  {canary}: yes\n",
    "password: *{canary}\n",
    "token: &{canary} x\n",
    "api_key: !{canary} x\n",
    "extends: {canary}.yaml\n",
    "extends: ../{canary}/x.yaml\n",
    "backend: {canary}\n",
    "copies: {canary}\n",
    "benchmark: {{concurrency: {canary}}}\n",
    "buffer: {{enabled: {canary}, {canary}: no}}\n",
    "model: {{id: {canary}, source: {{type: hub, revision: {canary}, token_secret_arn: {canary}}}}}\n",
    "container: {{family: tgi, environment: {{HF_TOKEN: {canary}}}}}\n",
    "container: {{family: tgi, environment: {{LEVEL: {canary}}}}}\n",
    "container: {{family: tgi, image: 'https://user:{canary}@host/x', environment: {{{canary}: x, 1{canary}: 2}}}}\n",
    "endpoint: {{instance_type: {canary}}}\n",
    "scaling: {{policies: [{{type: {canary}}}, {canary}]}}\n",
    "a: '{canary}\n",
    "a: b: {canary}\n",
    "? {{{canary}: no}}\n: {canary}\n",
    "a: {canary}\na: {canary}\n{canary}: 1\n{canary}: 2\n",
]


def everything_said(folder: Path, text: str, name: str = "chat.yaml") -> str:
    (folder / name).write_text(text)
    outcome = CheckedFiles.of([check_file(folder / name)])
    return "\n".join([as_text(outcome, coloured=True), as_json(outcome), as_sarif(outcome)])


@pytest.mark.parametrize("place", PLACES)
def test_a_credential_is_never_shown(place: str, tmp_path: Path) -> None:
    """Wherever a credential stands, and whatever is wrong with it, no format shows it."""
    for text in (place.format(canary=CANARY), CHAT + place.format(canary=CANARY)):
        assert CANARY not in everything_said(tmp_path, text)


@pytest.mark.parametrize("key", ["HF_TOKEN", "db-password", "apiKey", "AWS_SECRET_ACCESS_KEY", "client_secret"])
def test_a_value_under_a_secret_key_is_never_shown(key: str, tmp_path: Path) -> None:
    """Also a value without any tell-tale shape: a number, a list, a duplicate."""
    for value in (NUMERIC_CANARY, f"[{NUMERIC_CANARY}]", f"{NUMERIC_CANARY}\n{key}: {NUMERIC_CANARY}"):
        said = everything_said(tmp_path, CHAT + f"{key}: {value}\n")
        assert NUMERIC_CANARY not in said
        assert key in said


def test_no_value_of_a_variable_is_shown(tmp_path: Path) -> None:
    """What a container's variable holds stays out of messages, secret or not."""
    said = everything_said(
        tmp_path, CHAT.replace("family: tgi", f"family: tgi\n  environment: {{LEVEL: {NUMERIC_CANARY}}}")
    )
    assert NUMERIC_CANARY not in said
    assert "(value hidden)" in said


def test_a_token_pasted_into_a_names_place_is_not_quoted_by_a_rule(tmp_path: Path) -> None:
    """`model.id` is well-formed as a token, so LP302 would quote it as an unknown model."""
    said = everything_said(
        tmp_path,
        f"model: {{id: {CANARY}, source: {{type: hub}}}}\ncontainer: {{family: tgi}}\n",
    )
    assert "the catalog does not know `(value hidden)`" in said
    assert CANARY not in said


def test_a_parents_secret_is_not_shown(tmp_path: Path) -> None:
    """A file reached through extends is treated like the file itself."""
    (tmp_path / "parent.yaml").write_text(f"{CHAT}password: 0{NUMERIC_CANARY}\ndescription: {CANARY}\n")
    said = everything_said(tmp_path, "extends: parent.yaml\n")
    assert "parent.yaml" in said
    assert CANARY not in said and NUMERIC_CANARY not in said


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(PLACES), st.sampled_from(PLACES), st.sampled_from(["\n", "  ", "- ", "x: ", "# "]))
def test_places_in_combination(first: str, second: str, between: str) -> None:
    """Also when one mistake hides another."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        text = first.format(canary=CANARY) + between + second.format(canary=CANARY)
        assert CANARY not in everything_said(Path(folder), text)


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        ("HF_TOKEN", True),
        ("HUGGING_FACE_HUB_TOKEN", True),
        ("dbPassword", True),
        ("AWS_ACCESS_KEY_ID", True),
        ("private-key", True),
        ("max_input_tokens", False),
        ("MAX_TOTAL_TOKENS", False),
        ("num_experts_per_token", False),
        ("EOS_TOKEN", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("kms_key_arn", False),
        ("compass", False),
    ],
)
def test_which_keys_name_a_secret(key: str, secret: bool) -> None:
    """Token counts and special tokens of text are not credentials."""
    assert is_secret_key(key) is secret


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("hf_abcdefghijklmnop", True),
        ("AKIAIOSFODNN7EXAMPLE", True),
        ("https://user:hunter2@example.com/x", True),
        ("Server=db;Database=x;User Id=a;Password=hunter2;", True),
        ("AccountName=a;AccountKey=aGk=;EndpointSuffix=core.windows.net", True),
        ("Endpoint=sb://x/;SharedAccessKeyName=R;SharedAccessKey=aGk=", True),
        ("host=db user=a password=hunter2", True),
        ("jdbc:postgresql://h/db?user=a&password=hunter2", True),
        ("Server=db;Password=${DB_PASSWORD};", False),
        ("Server=db;Password=;Trusted_Connection=yes", False),
        ("passwordless=true;mode=b", False),
        ("-----BEGIN RSA PRIVATE KEY-----", True),
        ("wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY1a", True),
        ("{{resolve:secretsmanager:hub}}", True),
        ("9216db5781bf21249d130ec9da846c4624c16137", False),
        ("meta-llama/Llama-3.1-8B-Instruct", False),
        ("s3://example-models-123456789012/llama-3.1-8b-instruct/", False),
        ("763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.38.0-lmi29.0.0-cu130", False),
        ("arn:aws:secretsmanager:us-east-1:123456789012:secret:hub-a1b2c3", False),
        ("al2023-ami-sagemaker-inference-gpu-4-1", False),
        ("SageMakerInferenceComponentConcurrentRequests", False),
    ],
)
def test_which_values_have_the_shape_of_a_secret(text: str, secret: bool) -> None:
    """Names, addresses, ARNs and commits of everyday profiles are not credentials."""
    assert is_secret_value(text) is secret


def test_shown_text_fits_a_line_and_cannot_steer_a_terminal() -> None:
    """Control characters are escaped, long text is cut."""
    assert shown("a\x1b[31m\nb") == "a\\x1b[31m\\nb"
    assert shown("x" * 500) == "x" * 59 + "…"
    assert shown_path(("a", 0, "b c", "d.e")) == 'a[0]."b c".d.e'


def test_names_of_the_catalogs_models_are_no_secrets() -> None:
    """Long names of mixed case and digits, `DeepSeek-R1-Distill-Qwen-32B` among them, are not taken for tokens."""
    names = [
        *catalog.architectures(),
        "neuralmagic/Meta-Llama-3-70B-Instruct-FP8",
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        "s3://bucket-a/models/Meta-Llama-3-8B-Instruct/2024/",
    ]
    assert [name for name in names if is_secret_value(name)] == []


@pytest.mark.parametrize(
    "word",
    [
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "q8Zt3Wn0bVx7LpR2kYc9MsD4fHj6GaE1",
        "x7Kd-93bQz_LmP0sVw2RtYh5NcJf8Ga-1EoU4iXpB6k",
    ],
)
def test_long_words_nobody_chose_are_secrets(word: str) -> None:
    """Base64 and base64url alike: kinds of characters change all the time."""
    assert is_secret_value(word)


SECRET_WORDS = "s3cr3t-Passw0rd!"


@pytest.mark.parametrize(
    "place",
    [
        "container: {{family: tgi, environment: '{canary}'}}\n",
        "container: {{family: tgi, environment: ['PASSWORD={canary}']}}\n",
        "container: {{family: tgi, environment: {{'HF_TOKEN={canary}': x}}}}\n",
        "container: {{family: 'https://x.y/?token={canary}'}}\n",
        "backend: password={canary}\n",
        "backend: --api-key {canary}\n",
        "'password: {canary}': 1\n",
    ],
)
def test_a_named_secret_is_never_shown(place: str, tmp_path: Path) -> None:
    """A password without any tell-tale shape is hidden by the word before it, or by the map it stands in."""
    assert SECRET_WORDS not in everything_said(tmp_path, place.format(canary=SECRET_WORDS))


def test_a_token_in_the_place_of_a_variables_name_is_found(tmp_path: Path) -> None:
    """`environment: {hf_...: "x"}` is LP401, and the name is hidden."""
    said = everything_said(tmp_path, CHAT.replace("family: tgi", f"family: tgi\n  environment: {{{CANARY}: text}}"))
    assert "container.environment.(key hidden): (key hidden) looks like a secret" in said
    assert CANARY not in said
