"""Workloads against what the server admits: pairs, pictures, classes and their own lengths, each by hand."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from profiles_samples import CHAT

from loadproof.profiles import check_file, load_profile
from loadproof.profiles.mixture import mixture_of

PAIRS = {
    "input_tokens": {"distribution": "empirical", "values": [2000, 1000]},
    "output_tokens": {"distribution": "empirical", "values": [96, 3096]},
}


def file_of(folder: Path, workload: dict[str, Any], **profile: Any) -> Path:
    """The chat profile, whose TGI admits prompts of 2,048 tokens and 4,096 with the answer."""
    values = yaml.safe_load(CHAT) | profile
    values["workload"] |= workload
    file = folder / "chat.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    return file


def told(folder: Path, workload: dict[str, Any], **profile: Any) -> list[tuple[str, str, str]]:
    problems = check_file(file_of(folder, workload, **profile)).problems
    return [(one.code, one.path, one.message) for one in problems if one.severity == "error"]


def test_pairs_are_as_long_as_the_longest_pair(tmp_path: Path) -> None:
    """2,096 and 4,096 tokens: what 2,000 and 3,096 together would be is never sent."""
    assert told(tmp_path, PAIRS | {"paired_lengths": True}) == []


def test_lengths_drawn_by_themselves_may_meet(tmp_path: Path) -> None:
    (found,) = told(tmp_path, PAIRS)
    assert found[:2] == ("LP252", "workload.output_tokens")
    assert "2,000 prompt and 3,096 answer tokens exceed 4,096" in found[2]


def test_a_pair_that_is_too_long_is_told(tmp_path: Path) -> None:
    longer = {"distribution": "empirical", "values": [96, 3097]}
    (found,) = told(tmp_path, PAIRS | {"paired_lengths": True, "output_tokens": longer})
    assert "exceed 4,096" in found[2]


def test_pictures_are_part_of_the_prompt(tmp_path: Path) -> None:
    """Qwen2.5-VL sees 1,024 x 1,024 pixels as 37 x 37 tokens and two around them: 1,371; four are 5,484."""
    model = {"id": "Qwen/Qwen2.5-VL-7B-Instruct", "source": {"type": "s3", "s3_uri": "s3://models/qwen/"}}
    pictures = {"images": {"width_px": 1024, "height_px": 1024, "count": 4}}
    vllm = {"family": "vllm", "version": "0.30.0", "settings": {"max_model_len": 4096}}
    found = [one for one in told(tmp_path, pictures, model=model, container=vllm) if one[0] == "LP252"]
    assert len(found) == 1
    assert "5,740 prompt, 5,484 of them of pictures, and 64 answer tokens exceed 4,096" in found[0][2]


@pytest.mark.parametrize("part", [
    {"classes": [{"name": "fixed", "share": 0.5, "input_tokens": 300, "output_tokens": 30}]},
    {"steps": [{"name": "one", "input_tokens": 300, "output_tokens": 30}]},
], ids=["classes", "steps"])  # fmt: skip
def test_a_part_with_lengths_of_its_own_has_no_pairs(part: dict[str, Any], tmp_path: Path) -> None:
    """The rest of the workload goes on in pairs."""
    file = file_of(tmp_path, PAIRS | {"paired_lengths": True} | part)
    chance = Random(1)
    drawn = {
        (step.input_tokens, step.output_tokens)
        for one in mixture_of(load_profile(file).workload).classes
        for _ in range(40)
        for step in one.drawn(chance)
    }
    assert drawn == ({(300, 30)} if "steps" in part else {(2000, 96), (1000, 3096), (300, 30)})


@pytest.mark.parametrize("place", ["workload", "workload.classes[0]"])
def test_pairs_without_values_are_told_where_they_are_written(place: str, tmp_path: Path) -> None:
    here: dict[str, Any] = {"paired_lengths": True}
    workload = here if place == "workload" else {"classes": [{"name": "a", "share": 0.5, **here}]}
    (found,) = told(tmp_path, workload)
    assert found[:2] == ("LP254", f"{place}.paired_lengths")


def test_a_class_of_single_requests_stands_beside_conversations(tmp_path: Path) -> None:
    """Nobody thinks after its one answer."""
    talk = {"turns": 2, "think_time_s": 5, "continues": 0.5}
    assert told(tmp_path, talk | {"classes": [{"name": "a", "share": 0.3, "turns": 1}]}) == []


def test_a_class_s_prompts_hold_its_prefix(tmp_path: Path) -> None:
    short = {"name": "a", "share": 0.3, "input_tokens": 100}
    (found,) = told(tmp_path, {"shared_prefix_tokens": 200, "classes": [short]})
    assert found[:2] == ("LP253", "workload.classes[0].shared_prefix_tokens")


def test_a_first_step_holds_the_prefix(tmp_path: Path) -> None:
    steps = [{"name": "one", "input_tokens": 100, "output_tokens": 30}]
    (found,) = told(tmp_path, {"shared_prefix_tokens": 200, "steps": steps})
    assert "200 shared tokens exceed prompts of 100" in found[2]


def test_a_class_s_request_is_told_where_its_lengths_are(tmp_path: Path) -> None:
    (found,) = told(tmp_path, {"classes": [{"name": "a", "share": 0.3, "input_tokens": 2000, "output_tokens": 3000}]})
    assert found[:2] == ("LP252", "workload.classes[0].output_tokens")
