"""Settings are proposed only where the model of capacity shows that they help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loadproof.advice.alternatives import SettingAdvice
from loadproof.advice.changes import changed
from loadproof.advice.comparison import Constraints, settle
from loadproof.advice.families import container_changes, families_for
from loadproof.advice.settings import advise
from loadproof.capacity import memory_fit, predict_level
from loadproof.capacity.workload import planned_deployment, planned_workload
from loadproof.families import FAMILIES
from loadproof.profiles import Profile, load_profile
from loadproof.profiles.checks import errors_of

ROOT = Path(__file__).parents[2]
FILES = sorted(
    file
    for folder in (ROOT / "deploy_profiles", ROOT / "tests/profiles/good")
    for file in folder.rglob("*.y*ml")
    if file.name != "environment.yaml"
)
DEV = "deploy_profiles/dev/llama-3-1-8b.yaml"
QWEN = "deploy_profiles/dev/qwen3-32b.yaml"
TINY = "deploy_profiles/local-vllm/tiny-llama.yaml"
FEW = Constraints(("ml.g5.2xlarge", "ml.g6e.2xlarge", "ml.g6e.12xlarge", "ml.p5.48xlarge"))


def profile_of(file: str, **changes: Any) -> Profile:
    """`container__settings={...}` merges two levels deep, anything else one."""
    data = load_profile(ROOT / file).model_dump(exclude_none=True)
    for key, value in changes.items():
        part, _, below = key.partition("__")
        if below:
            data[part] = data[part] | {below: data[part][below] | value}
        else:
            data[part] = data[part] | value if isinstance(value, dict) else value
    return Profile.model_validate(data)


def advice_of(profile: Profile) -> dict[str, SettingAdvice]:
    return {advice.setting.removeprefix("container.settings."): advice for advice in advise(profile)}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_advice_once_taken_is_not_given_again_and_passes_the_checks(file: Path) -> None:
    """Every proposal is a profile that `loadproof check` accepts, and each names a figure that gets better."""
    profile = load_profile(file)
    for advice in advise(profile):
        assert advice.before != advice.after
        assert advice.changes
        profile = changed(profile, advice.changes)
    assert errors_of(profile) == []
    assert advise(profile) == ()


def test_a_server_that_refuses_what_is_sent_is_told_to_admit_it() -> None:
    """The benchmark sends 8, TGI admits 2: six are refused, and none once 8 are admitted."""
    advice = advice_of(profile_of(DEV, container__settings={"max_concurrent_requests": 2}))["max_concurrent_requests"]
    assert (advice.current, advice.proposed, advice.after) == ("2", "8", 0.0)
    assert advice.metric.startswith("requests refused at ")


def test_places_in_the_batch_follow_what_is_sent() -> None:
    """Sixteen requests in flight and eight places: sixteen places, and no more, since no more are sent."""
    advice = advice_of(profile_of(TINY))["max_num_seqs"]
    assert (advice.current, advice.proposed) == ("8", "16")
    assert advice.after > 1.5 * advice.before


def test_a_shared_prefix_is_cached() -> None:
    """900 of 1,000 prompt tokens are shared: TTFT falls to what 100 tokens take, and the plan counts on it after."""
    workload = {"input_tokens": 1000, "shared_prefix_tokens": 900}
    profile = profile_of(QWEN, workload=workload, container__settings={"enable_prefix_caching": False})
    advice = advice_of(profile)["enable_prefix_caching"]
    assert (advice.current, advice.proposed) == ("false", "true")
    settled = changed(profile, advice.changes)
    deployment, planned = planned_deployment(settled), planned_workload(settled)
    assert planned.cached_tokens == 900
    whole = predict_level(deployment, 1000, planned.output_tokens, 4, cached_tokens=900)
    assert planned.level(deployment, 4) == whole


def test_a_prefix_is_not_cached_where_none_is_shared() -> None:
    """Nothing to say: no figure would move."""
    assert "enable_prefix_caching" not in advice_of(
        profile_of(QWEN, container__settings={"enable_prefix_caching": False})
    )


def test_dynamic_batching_is_advised_away() -> None:
    """The founding posts' comparison: continuous batching, and the other kind's fields go with the old one."""
    profile = load_profile(ROOT / "tests/profiles/good/lmi-dynamic-batching.yaml")
    advice = advice_of(profile)["rolling_batch"]
    assert (advice.current, advice.proposed) == ("disable", "auto")
    assert advice.metric == "mean TTFT in ms at 4 in flight"
    assert settle(profile, "least cost that meets the objectives", FEW).recommendation.alternative is not None
    assert {change.name for change in advice.changes if change.after is None} == {
        "container.settings.batch_size",
        "container.settings.max_batch_delay_ms",
    }


def test_idle_accelerators_get_copies() -> None:
    """ml.g6e.12xlarge has four accelerators and is paid for: one copy becomes four."""
    profile = profile_of(DEV, endpoint={"instance_type": "ml.g6e.12xlarge"}, copies={"min": 1, "max": 4})
    (advice,) = [advice for advice in advise(profile) if advice.setting == "copies.min"]
    assert (advice.current, advice.proposed) == ("1", "4")
    assert "1 instance of ml.g6e.12xlarge take 4" in advice.reason


def test_a_length_that_does_not_fit_is_cut_to_what_the_workload_needs() -> None:
    """131,072 tokens of context do not fit an A10G beside 8B weights; 304 tokens, rounded to 512, do."""
    profile = profile_of(TINY)
    data = profile.model_dump(exclude_none=True)
    data["model"] = load_profile(ROOT / DEV).model.model_dump(exclude_none=True)
    data["endpoint"]["instance_type"] = "ml.g5.2xlarge"
    data["container"]["settings"] = {"tensor_parallel_degree": 1}
    data["workload"] |= {"input_tokens": 256, "output_tokens": 48}
    profile = Profile.model_validate(data)
    assert memory_fit(planned_deployment(profile)).fits == "no"
    advice = advice_of(profile)["max_model_len"]
    assert (advice.current, advice.proposed) == ("unset: 131,072 tokens", "512")
    assert memory_fit(planned_deployment(changed(profile, advice.changes))).fits == "yes"


def test_a_chunked_scheduler_is_never_told_to_take_fewer_tokens_a_step() -> None:
    """What that does to answers under way is not modelled, so nothing is said."""
    for file in (QWEN, TINY):
        for advice in advise(profile_of(file)):
            assert not (advice.setting.endswith("tokens") and advice.after < advice.before)


@pytest.mark.parametrize("family", [family.name for family in FAMILIES.values() if family.image])
@pytest.mark.parametrize("file", [DEV, QWEN, TINY])
def test_another_family_keeps_length_and_degree(file: str, family: Any) -> None:
    """Prompt plus answer stays what it was, the degree is written out, and the result passes the checks."""
    profile = profile_of(file)
    moved = changed(profile, container_changes(profile, family, 1 if file != QWEN else 4))
    assert errors_of(moved) == []
    assert moved.container is not None
    assert moved.container.family == family
    before, after = planned_deployment(profile), planned_deployment(moved)
    assert after.limits.max_request_tokens == before.limits.max_request_tokens
    assert after.accelerators == before.accelerators


def test_a_pinned_version_stays_pinned() -> None:
    """The new family's newest where a version was named, nothing where none was."""
    pinned = profile_of("deploy_profiles/base/llama-3-1-8b.yaml")
    assert changed(pinned, container_changes(pinned, "vllm", 1)).container.version == "0.30.0"  # type: ignore[union-attr]
    floating = profile_of(DEV)
    assert changed(floating, container_changes(floating, "vllm", 1)).container.version is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("container", "why"),
    [
        ({"environment": {"FOO": "1"}}, "container.environment"),
        ({"image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/tgi:1.0", "version": None}, "container.image"),
    ],
)
def test_what_has_no_counterpart_ties_a_profile_to_its_server(container: dict[str, Any], why: str) -> None:
    """One family, and the reason in words."""
    families, note = families_for(profile_of(DEV, container=container))
    assert families == ("tgi",)
    assert note is not None
    assert why in note


def test_a_quantization_is_compared_only_where_it_is_served() -> None:
    """mxfp4 is unknown to TGI."""
    families, note = families_for(profile_of(QWEN, model={"quantization": "mxfp4"}))
    assert "tgi" not in families
    assert note is None
