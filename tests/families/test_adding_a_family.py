"""A family is added with its module (`nim.py` beside this file) and a catalog row, and nothing else is edited.

Both are put into a copy of the package; commands then run in it, each in a process of its own, as a user would.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from processes import run_process

from loadproof.families import ContainerFamily

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
ROW = "nim,1.8.3,dlc,nvidia-nim,1.8.3-gpu-cu124,12.4,openai,,a test,2026-11-22\n"
PROFILE = """\
name: chat
model:
  id: meta-llama/Llama-3.1-8B-Instruct
  quantization: fp8
  source: {type: s3, s3_uri: s3://models/chat/, accept_eula: true}
container:
  family: nim
  settings: {max_model_len: 4096, kv_cache_fraction: 0.8, enable_prefix_caching: false}
endpoint: {instance_type: ml.g6e.2xlarge}
objectives: {at_concurrency: 4, ttft_p95_ms: 500}
workload: {input_tokens: 256, output_tokens: 64}
"""
ENVIRONMENT = """\
account: "123456789012"
region: us-east-1
acknowledged: {LS006: no data of customers in dev}
"""
VARIABLES = {
    "NIM_MODEL_NAME": "/opt/ml/model",
    "NIM_QUANTIZATION": "fp8",
    "NIM_DTYPE": "bfloat16",
    "NIM_TENSOR_PARALLEL_SIZE": "1",
    "NIM_MAX_MODEL_LEN": "4096",
    "NIM_KVCACHE_PERCENT": "0.8",
    "NIM_ENABLE_KV_CACHE_REUSE": "false",
}
MOST_HAVE_NOT = {
    *("keeps_prompts", "measured_lines"),
    *("unset", "former_variables", "switched_off", "speculation", "refusals"),
    *(
        "bare_flags",
        "suffixed",
        "words",
        "degree_variables",
        "holds_longest",
        "longest_is_context",
        "prompt_setting",
        "admission",
        "continuous_batching",
        "tied_by",
    ),
}
BACK = """\
import json
from loadproof.families import family_and_version
from loadproof.profiles import quantization_from_variables, settings_from_variables
variables = json.loads({variables!r})
print(json.dumps({{
    "image": family_and_version("763104351884.dkr.ecr.us-east-1.amazonaws.com/nvidia-nim:1.8.3-gpu-cu124"),
    "settings": settings_from_variables("nim", variables).model_dump(exclude_none=True),
    "quantization": quantization_from_variables("nim", variables),
}}))
"""


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the module and the row, and a profile of the new family."""
    root = tmp_path_factory.mktemp("added")
    shutil.copytree(REPOSITORY / "loadproof", root / "loadproof", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "nim.py", root / "loadproof" / "families" / "nim.py")
    with (root / "loadproof" / "catalog" / "data" / "containers.csv").open("a", encoding="utf-8") as table:
        table.write(ROW)
    folder = root / "deploy_profiles" / "dev"
    folder.mkdir(parents=True)
    (folder / "chat.yaml").write_text(PROFILE, encoding="utf-8")
    (folder / "environment.yaml").write_text(ENVIRONMENT, encoding="utf-8")
    return root


def run(root: Path, *arguments: str, **variables: str) -> str:
    """What Python prints in the copy. A failure shows its errors."""
    done = run_process(
        [sys.executable, *arguments],
        cwd=root,
        env=os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{REPOSITORY}"} | variables,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_profile_passes_every_check(added: Path) -> None:
    """`loadproof check` reads the family, its settings and its image's version."""
    found = json.loads(run(added, "-m", "loadproof", "check", "deploy_profiles/dev/chat.yaml", "--format", "json"))
    assert (found["files"][0]["ok"], found["problems"]) == (True, [])


def test_it_is_planned_with_its_own_limits(added: Path) -> None:
    """`loadproof plan` takes the newest image's version, and grades D what nobody has measured."""
    plan = json.loads(run(added, "-m", "loadproof", "plan", "deploy_profiles/dev/chat.yaml", "--format", "json"))
    assert plan["server"] == {"family": "nim", "version": "1.8.3"}
    assert plan["memory"]["longest_request_tokens"] == 4096
    assert plan["grade"] == "D"


def test_its_template_sets_its_variables(added: Path) -> None:
    """The synthesized model's environment is what the module says, `false` and quantization included."""
    out = added / "cdk.out"
    context = json.loads((REPOSITORY / "cdk.json").read_text(encoding="utf-8"))["context"] | {"env": "dev"}
    program = "import sys; from pathlib import Path; from stacks.application import main; "
    program += "sys.exit(main(Path('deploy_profiles')))"
    run(added, "-c", program, CDK_OUTDIR=str(out), CDK_CONTEXT_JSON=json.dumps(context))
    templates = [json.loads(file.read_text(encoding="utf-8")) for file in out.glob("**/*.template.json")]
    (model,) = (
        resource["Properties"]["PrimaryContainer"]
        for template in templates
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::SageMaker::Model"
    )
    assert model["Image"] == "763104351884.dkr.ecr.us-east-1.amazonaws.com/nvidia-nim:1.8.3-gpu-cu124"
    assert model["Environment"] == VARIABLES


def test_its_variables_are_read_back(added: Path) -> None:
    """What the local cloud sees of a deployed container: family and version, settings, quantization."""
    found = json.loads(run(added, "-c", BACK.format(variables=json.dumps(VARIABLES))))
    assert found == {
        "image": ["nim", "1.8.3"],
        "settings": {
            "tensor_parallel_degree": 1,
            "max_model_len": 4096,
            "kv_cache_fraction": 0.8,
            "enable_prefix_caching": False,
        },
        "quantization": "fp8",
    }


def test_mypy_names_everything_that_a_module_lacks(tmp_path: Path) -> None:
    """A field left out is an error with its name, but for what most families have not. The whole module has none."""
    module = (HERE / "nim.py").read_text(encoding="utf-8")
    lacking = tmp_path / "lacking.py"
    lacking.write_text(module[: module.index("FAMILY = ")] + "FAMILY = ContainerFamily()\n", encoding="utf-8")
    done = run_process(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(lacking), str(HERE / "nim.py")],
        cwd=REPOSITORY,
    )
    named = set(re.findall(r'Missing named argument "(\w+)" for "ContainerFamily"', done.stdout))
    assert "nim.py" not in done.stdout
    spared = {field.name for field in fields(ContainerFamily) if field.name not in named}
    assert spared == MOST_HAVE_NOT, done.stdout
