"""A stranger's program behind walls reaches nothing of this machine, and is ended where it takes too much."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
from hostile_code import CANARY, Target, attacks, bombs

from loadproof.walls import prison
from loadproof.walls.prison import Bounds, Ended, Kind, Program

KINDS: tuple[Kind, ...] = ("namespaces", "bubblewrap")
SMALL = Bounds(cpu_s=2, idle_s=1.5, memory_mib=600)
_NOWHERE = Target(*[Path("/nowhere")] * 4, 1, Path("/nowhere"), 2)
NAMES = [name for name, _ in attacks(_NOWHERE)]
BOMBS = list(bombs())


@dataclass(frozen=True, slots=True)
class Outcome:
    ended: Ended
    said: str
    left: dict[str, bytes]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    if not prison.is_offered(found):
        pytest.skip("this machine does not offer it")
    return found


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Servers that note who came, a user's secrets, and a process that holds one."""
    top = tmp_path_factory.mktemp("machine")
    for name in ("home/.aws", "outside", "own"):
        (top / name).mkdir(parents=True)
    (top / "secret.txt").write_text(CANARY)
    (top / "home/.aws/credentials").write_text(CANARY)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as other:
        other.bind(str(top / "socket"))
        other.listen()
        for one in (server, other):
            threading.Thread(target=_note, args=(one, top / "came"), daemon=True).start()
        victim = subprocess.Popen(["sleep", "9999"], env={"TOKEN": CANARY, "PATH": "/usr/bin:/bin"})
        yield Target(
            top / "secret.txt",
            top / "home",
            top / "outside",
            top / "own",
            server.getsockname()[1],
            top / "socket",
            victim.pid,
        )
        victim.kill()
        victim.wait()


def _note(server: socket.socket, came: Path) -> None:
    try:
        while True:
            server.accept()
            came.touch()
    except OSError:
        return


def run(code: str, kind: Kind, bounds: Bounds, folder: Path) -> Outcome:
    """As a review runs it; `folder` is all that it is shown."""
    (folder / "app.py").write_text(code)
    variables = {"PATH": "/usr/bin:/bin", "CDK_OUTDIR": prison.OUT}
    libraries = (folder, Path(sys.prefix))
    program = Program([sys.executable, "app.py"], folder, variables, libraries, None, {})
    with tempfile.TemporaryDirectory() as out, tempfile.TemporaryFile() as plan, tempfile.TemporaryFile() as said:
        plan.write(prison.plan_of(program, bounds))
        plan.seek(0)
        process = subprocess.Popen(
            prison.command(program, bounds, kind),
            stdin=plan,
            stdout=subprocess.PIPE,
            stderr=said,
            env={"TOKEN": CANARY},
            start_new_session=True,
        )
        assert process.stdout is not None
        ended = prison.receive(process.stdout, Path(out), 64 << 20)
        process.stdout.close()
        process.wait()
        said.seek(0)
        left = {file.name: file.read_bytes() for file in Path(out).iterdir()}
        return Outcome(ended, said.read(1 << 20).decode(errors="replace"), left)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_machine_is_reached(name: str, kind: Kind, target: Target) -> None:
    """No byte of a secret in what it says or leaves, nobody reached, nothing changed, nobody ended."""
    outcome = run(dict(attacks(target))[name], kind, replace(SMALL, cpu_s=20), target.own)
    everything = [outcome.said.encode(), *outcome.left.values()]
    assert not any(CANARY.encode() in one or b"SENT" in one for one in everything), everything
    assert not (target.own.parent / "came").exists()
    assert [file.name for file in target.own.iterdir()] == ["app.py"]
    assert not list(target.outside.iterdir()) and target.secret.read_text() == CANARY
    assert psutil.Process(target.parent).status() == psutil.STATUS_SLEEPING
    assert not [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", "987"]]
    assert not any("/" in file for file in outcome.left)


@pytest.mark.parametrize(("name", "code", "bound"), BOMBS, ids=[name for name, _, _ in BOMBS])
def test_what_takes_too_much_is_ended(name: str, code: str, bound: str, kind: Kind, tmp_path: Path) -> None:
    """By the bound it breaks, or because it is refused; all that it started ends with it."""
    outcome = run(f"# bomb {name}\n{code}", kind, SMALL, tmp_path)
    assert bound in outcome.ended.breach if bound else outcome.ended.code != 0, outcome
    assert len(outcome.said) <= 1 << 20
    marked = [one for one in psutil.process_iter(["cwd"]) if one.info["cwd"] == str(tmp_path)]
    assert not marked


def test_there_are_a_hundred_attacks() -> None:
    """None twice."""
    names = [*NAMES, *(name for name, _, _ in BOMBS)]
    assert len(set(names)) == len(names) >= 100


def test_an_honest_program_hands_over_its_files(kind: Kind, tmp_path: Path) -> None:
    """Templates and the manifest, as they were written; code 0 and no breach."""
    code = "import os\nfor n in 'ab': open(f\"{os.environ['CDK_OUTDIR']}/{n}.json\", 'w').write(n * 70000)"
    outcome = run(code, kind, SMALL, tmp_path)
    assert (outcome.ended, outcome.left) == (Ended(0, ""), {"a.json": b"a" * 70000, "b.json": b"b" * 70000})


def test_the_walls_end_with_the_review(kind: Kind, tmp_path: Path) -> None:
    """Killed, it has no time to end anything itself."""
    (tmp_path / "app.py").write_text("import time\ntime.sleep(999)")
    program = Program([sys.executable, "app.py"], tmp_path, {}, (tmp_path, Path(sys.prefix)), None, {})
    review = subprocess.Popen(
        [
            *(sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])"),
            *prison.command(program, replace(SMALL, idle_s=600), kind),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert review.stdin is not None
    review.stdin.write(prison.plan_of(program, replace(SMALL, idle_s=600)))
    review.stdin.close()
    while not (inside := _in(tmp_path)):
        assert review.poll() is None
        time.sleep(0.05)
    review.kill()
    review.wait()
    for one in inside:
        one.wait(60)


def _in(folder: Path) -> list[psutil.Process]:
    return [one for one in psutil.process_iter(["cwd"]) if one.info["cwd"] == str(folder)]
