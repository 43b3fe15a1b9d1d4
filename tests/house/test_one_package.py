"""What a wheel installs, and what stands on it from outside."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from processes import run_process

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """Built by the project's own back end, without network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = f"import hatchling.build as build; build.build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    return zipfile.Path(file)


def test_wheel_installs_one_package(wheel: zipfile.Path) -> None:
    """Nothing but `loadproof` and its metadata reaches anybody's site-packages."""
    assert sorted(place.name.partition("-")[0] for place in wheel.iterdir()) == ["loadproof", "loadproof"]


def test_wheel_alone_synthesizes_profiles(wheel: zipfile.Path, tmp_path: Path) -> None:
    """From an installation with no checkout: the application that came with it makes a profile's template."""
    wheel.root.extractall(tmp_path / "site")
    code = (
        "import sys; from pathlib import Path; from loadproof.scaffold import team_files; place = team_files()\n"
        "assert 'site' in place.parts, place; sys.path.insert(0, str(place))\n"
        "from stacks.application import main; sys.exit(main(Path(sys.argv[1])))"
    )
    done = run_process(
        [sys.executable, "-P", "-c", code, str(ROOT / "deploy_profiles")],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path / "site"),
            "CDK_OUTDIR": str(tmp_path / "out"),
            "CDK_CONTEXT_JSON": '{"env": "dev", "profile": "qwen3-32b"}',
        },
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "loadproof-dev-qwen3-32b.template.json").is_file()


@pytest.mark.parametrize(
    "file",
    sorted([ROOT / "app.py", *(ROOT / "stacks").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]),
    ids=lambda file: file.relative_to(ROOT).as_posix(),
)
def test_what_a_team_owns_needs_no_private_name(file: Path) -> None:
    """Every import of the library, and of each other, is by names without an underscore in front."""
    imports = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
    ours = [
        node for node in imports if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("loadproof")
    ]
    names = [part for node in ours for part in (*(node.module or "").split("."), *(alias.name for alias in node.names))]
    assert [name for name in names if name.startswith("_")] == []
