"""Where HEAD changes code, that code runs behind walls in a review, and what is left of the review is of use."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes import run_process
from review_repository import WALLED, Project, names

from loadproof.sides import pairs as sides_pairs

CANARY = "canary-91a2"
MORE = {"min": 2, "max": 2, "memory_mib_per_copy": 16384}
# What `stacks/queue.py` does before it says what the stacks need: a class of attack each (tests/walls has all).
HOSTILE = {
    "reads": "print(open({secret!r}).read(), file=sys.stderr)",
    "reads as a timeout": "TIMEOUT_S = open({secret!r}).read()",
    "variables": "print(os.environ, file=sys.stderr); sys.exit(2)",
    "writes": "open({trap!r}, 'w')",
    "forks": "while True: os.fork()",
    "memory": "held = []\nwhile True: held.append(bytearray(8 << 20))",
    "files": "for at in range(10**6): open('/tmp/%d' % at, 'wb').write(bytes(32 << 20))",
    "kills itself": "os.kill(os.getpid(), 9)",
    "kills all": "os.kill(-1, 9)",
    "kills its parent": "os.kill(os.getppid(), 9); sys.exit(3)",
    "says it could not run": "sys.exit(3)",
    "a manifest of links": "os.symlink({secret!r}, os.environ['CDK_OUTDIR'] + '/manifest.json'); os._exit(0)",
    "a deep manifest": "open(os.environ['CDK_OUTDIR'] + '/manifest.json', 'w').write('[' * 10**6); os._exit(0)",
    "names that lead out": (
        "open(os.environ['CDK_OUTDIR'] + '/manifest.json', 'w').write('{{\"artifacts\":{{\"loadproof-dev-chat\":"
        '{{"type":"aws:cloudformation:stack","properties":{{"templateFile":"../../..{secret}"}}}}}}}}\'); os._exit(0)'
    ),
}


@pytest.fixture
def reviews(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where reviews of this test keep what they work on, and no other's."""
    folder = tmp_path_factory.mktemp("reviews")
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """`dev/search` grows on `head`, which changes code too."""
    made = Project(tmp_path / "repository", dev=("chat", "search"))
    (tmp_path / "secret").write_text(CANARY)
    made.git("checkout", "-q", "-b", "head")
    made.profile("dev/search", copies=MORE)
    monkeypatch.chdir(made.root)
    return made


def reviewed(project: Project, *options: str) -> tuple[int, str, dict[str, Any]]:
    """Exit code, all that was written, and the document."""
    file = project.root.parent / "review.json"
    done = run_process(
        [sys.executable, "-m", "loadproof", "review", "main", "head", "--no-cache", f"--output={file}", *options],
        cwd=project.root,
        env={
            **os.environ,
            "CDK_RUNS_FILE": "/nowhere",
            "DEPLOY_TOKEN": CANARY,
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
    )
    text = file.read_text() if file.exists() else "{}"
    return done.returncode, done.stdout + done.stderr + text, json.loads(text)


@WALLED
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_code_gets_nothing_and_the_change_is_still_reviewed(name: str, project: Project, reviews: Path) -> None:
    """Its side is refused with the reason; the profile's own change is told all the same."""
    trap = project.root.parent / "trap"
    code = HOSTILE[name].format(secret=str(project.root.parent / "secret"), trap=str(trap))
    project.write("stacks/queue.py", f"import os, sys\n{code}\nTIMEOUT_S = 60\n")
    project.commit()
    code, said, document = reviewed(project)
    assert code == 1, said
    assert CANARY not in said and "Traceback" not in said and not trap.exists()
    [search] = [one for one in document["profiles"] if one["profile"] == "search"]
    assert {"copies.min", "copies.max"} & {one["path"] for one in search["fields"]}
    assert search["refusal"]
    assert not [one for one in psutil.process_iter(["cwd"]) if (one.info["cwd"] or "").startswith(str(reviews))]


@WALLED
def test_honest_code_is_reviewed_behind_walls(project: Project) -> None:
    """What it changes is found, as without walls."""
    project.write("stacks/queue.py", "TIMEOUT_S = 90\n")
    project.commit()
    inside = project.sides("main", "head", trust="head")
    assert names(inside) == ["dev/chat", "dev/search"] and not inside.not_run and project.runs == 0
    assert inside.pairs == project.sides("main", "head", trust="unwalled").pairs


def test_without_walls_changed_code_does_not_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, as with `--trust base`; that of a change of profiles alone runs, for it is BASE's."""
    monkeypatch.setattr(sides_pairs, "prison_kind", lambda: "none")
    project.commit()
    unchanged = project.sides("main", "head", trust="head")
    assert (names(unchanged), unchanged.not_run) == (["dev/search"], ())
    project.write("stacks/queue.py", f"open({str(project.root.parent / 'trap')!r}, 'w')\n")
    project.commit()
    changed = project.sides("main", "head", trust="head")
    assert (names(changed), changed.not_run) == (["dev/search"], ("stacks/queue.py",))
    assert not (project.root.parent / "trap").exists()
