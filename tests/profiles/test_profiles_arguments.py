"""Variables that become arguments of a server: what its version does not know stops it (LP373)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from loadproof.catalog import container_images
from loadproof.catalog.arguments import unknown_arguments, words_of
from loadproof.families import FAMILIES
from loadproof.profiles import check_file

BASE = Path(__file__).parent / "bad" / "base" / "vllm.yaml"


@pytest.mark.parametrize(
    ("family", "environment", "says"),
    [
        (
            "vllm",
            {"SM_VLLM_MAX_MODEL_LENN": "1"},
            "unrecognized arguments: --max-model-lenn; write `container.settings",
        ),
        ("vllm", {"SM_VLLM_GPU_MEMORY_UTILISATION": "1"}, "write `container.settings.gpu_memory_utilization`"),
        ("vllm", {"SM_VLLM_MAX_CPU_LORA_S": "8"}, "--max-cpu-lora-s; write SM_VLLM_MAX_CPU_LORAS"),
        ("vllm", {"SM_VLLM_ENABLE_LORA_BIAS": "true"}, "unrecognized arguments: --enable-lora-bias"),
        ("vllm", {"SM_VLLM_MAX_NUM": "8"}, "ambiguous option: --max-num could match --max-num-batched-tokens"),
        ("sglang", {"SM_SGLANG_CONTEXT_LENGHT": "1"}, "write `container.settings.context_length`"),
        ("sglang", {"SM_SGLANG_XYZZY": "1"}, "unrecognized arguments: --xyzzy; delete it"),
        ("vllm", {"SM_VLLM_ENABLE_LORA_BIAS": "false"}, None),  # the entry point leaves it out
        ("vllm", {"SM_VLLM_MAX_NUM_SEQ": "8"}, None),  # the beginning of one argument is that argument
        ("vllm", {"SM_VLLM_MAX_CPU_LORAS": "8", "SM_SGLANG_XYZZY": "1"}, None),
        ("lmi", {"SM_VLLM_XYZZY": "1", "OPTION_XYZZY": "1"}, None),  # LMI hands on what vLLM knows, and no more
    ],
)
def test_an_argument_that_the_server_does_not_know(
    tmp_path: Path, family: str, environment: dict[str, str], says: str | None
) -> None:
    """In the words of argparse; one that nobody can name the nearest of is told, too."""
    container = {"family": family, "environment": environment, "settings": {}}
    file = tmp_path / "chat.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(BASE.read_text()), "container": container}))
    told = [str(problem) for problem in check_file(file).problems if problem.code == "LP373"]
    assert [(says or "") in one for one in told] == ([True] if says else [])


def test_every_variable_of_a_profile_is_an_argument_of_every_listed_version() -> None:
    """What templates write starts, by the servers' own lists."""
    for image in container_images():
        name, family = f"{image.repository}:{image.tag}", FAMILIES[image.family]
        if image.family not in ("vllm", "sglang"):
            continue
        names, settings = family.model_variables, family.setting_variables
        switches = [variable for setting, variable in settings.items() if setting.startswith("enable_")]
        written = [*settings.values(), *family.speculation.variables, names.model, names.revision, names.dtype]
        written += [names.quantization, *(off for one in switches for off in family.switched_off(one))]
        assert words_of(name, image.family, "argument"), name
        assert not list(unknown_arguments(name, dict.fromkeys(written, "1"))), name
        assert set(family.quantizations.values()) <= (words_of(name, image.family, "quantization") or set())
