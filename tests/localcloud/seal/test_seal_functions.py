"""What a deployed function's code finds of the machine: its own files and `/tmp`, bounds, nothing of the user's."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from loadproof.localcloud.queue.functions import Functions, Result
from loadproof.walls import sandbox
from loadproof.walls.sandbox import Confinement, sandbox_kind

landlocked = pytest.mark.skipif(sandbox_kind() != "landlock", reason="this kernel has no Landlock")
linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody adopts a process that lost its parent")
confined = pytest.mark.skipif(sandbox_kind() == "none", reason="this machine offers no sandbox")


@pytest.fixture
def functions() -> Iterator[Functions]:
    running = Functions({"AWS_ACCESS_KEY_ID": "the cloud's", "AWS_SECRET_ACCESS_KEY": "its secret"})
    yield running
    running.close()


def ask(functions: Functions, expression: str, *, memory_mib: int = 128, timeout_s: int = 10) -> object:
    """What an expression is in a function, or the name of its error."""
    result = _run(functions, expression, memory_mib, timeout_s)
    return result.value if result.error is None else result.error["errorType"]


def ended(functions: Functions, expression: str) -> object:
    """What is said of a function that ended meanwhile."""
    error = _run(functions, expression, 128, 10).error
    assert error is not None
    return error["errorMessage"]


def _run(functions: Functions, expression: str, memory_mib: int, timeout_s: int) -> Result:
    code = (
        "import os, pathlib, signal, socket, subprocess, sys, tempfile\n"
        f"def handle(event, context):\n    return {expression}\n"
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("app.py", code)
    function = SimpleNamespace(
        function_name="f",
        function_arn="arn:aws:lambda:us-east-1:123456789012:function:f",
        handler="app.handle",
        code_sha_256=code,
        code_bytes=packed.getvalue(),
        environment_vars={},
        timeout=timeout_s,
        memory_size=memory_mib,
        layers=[],
        region="us-east-1",
    )
    return functions.invoke(function, {})


@confined
@pytest.mark.parametrize("place", ["pathlib.Path('{}/secret').read_text()", "os.listdir('{}')"])
def test_files_of_the_user_cannot_be_read(functions: Functions, tmp_path: Path, place: str) -> None:
    """Wherever they lie: not what is not the function's own, the runtime's or the system's."""
    (tmp_path / "secret").write_text("key")
    assert ask(functions, place.format(tmp_path)) in ("PermissionError", "FileNotFoundError")


@confined
def test_the_home_folder_cannot_be_read(functions: Functions) -> None:
    """Not by its name either, whatever HOME says."""
    assert ask(functions, f"os.listdir({str(Path.home())!r})") in ("PermissionError", "FileNotFoundError")


def test_home_is_a_fresh_folder(functions: Functions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty, so there is no `~/.aws`; of the user's variables none comes along, the cloud's keys do."""
    monkeypatch.setenv("MY_TOKEN", "x")
    monkeypatch.setenv("AWS_PROFILE", "production")
    found = ask(functions, "[os.path.expanduser('~'), os.path.exists(os.path.expanduser('~/.aws')), dict(os.environ)]")
    assert isinstance(found, list)
    home, credentials, variables = found
    assert home != str(Path.home()) and not credentials
    assert variables.keys().isdisjoint({"MY_TOKEN", "AWS_PROFILE"})
    assert variables["AWS_ACCESS_KEY_ID"] == "the cloud's"


def test_a_function_writes_its_own_tmp(functions: Functions) -> None:
    """By tempfile, on every machine; gone with the worker."""
    name = ask(
        functions, "(lambda f: (f.write('x'), f.close(), f.name)[2])(tempfile.NamedTemporaryFile('w', delete=False))"
    )
    assert isinstance(name, str) and Path(name).read_text() == "x"
    functions.close()
    assert not Path(name).exists()


@landlocked
def test_slash_tmp_is_the_functions_own(functions: Functions) -> None:
    """Code may write `/tmp/...` as on Lambda, except where user namespaces are off; the machine's own stays."""
    found = ask(functions, "pathlib.Path('/tmp/loadproof-own-tmp').write_text('x')")
    assert found in (1, "PermissionError")
    assert not Path("/tmp/loadproof-own-tmp").exists()


@confined
def test_a_function_cannot_change_its_code(functions: Functions) -> None:
    """Nor the libraries of this installation."""
    assert ask(functions, "pathlib.Path(__file__).write_text('')") in ("PermissionError", "OSError")
    assert ask(functions, "pathlib.Path(__import__('boto3').__file__).write_text('')") in ("PermissionError", "OSError")


def test_what_lambda_brings_can_be_loaded(functions: Functions) -> None:
    """boto3 with its data, sockets to the network, subprocesses, Python's own libraries."""
    assert ask(functions, "__import__('boto3').client('s3', region_name='us-east-1').meta.region_name") == "us-east-1"
    assert ask(functions, "socket.socket().family") == 2
    assert (
        ask(functions, "subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout.decode()")
        == "1\n"
    )
    assert ask(functions, "__import__('sqlite3').connect(':memory:').execute('select 1').fetchone()") == [1]


@landlocked
@pytest.mark.parametrize(
    "reach",
    [
        "socket.socket(socket.AF_UNIX)",  # Docker, D-Bus, agents
        "os.kill(os.getppid(), 0)",
        "open(f'/proc/{os.getppid()}/environ').read()",
        "open('/etc/shadow').read()",
        "os.unlink('/dev/null')",
        "os.chroot('/')",
        "os.listdir('/proc/self/root' + __import__('pwd').getpwuid(0).pw_dir)",
    ],
)
def test_a_function_reaches_nothing_else_of_the_machine(functions: Functions, reach: str) -> None:
    """Neither sockets of the user's, nor other processes and their variables, nor root's."""
    assert ask(functions, reach) in ("PermissionError", "FileNotFoundError")


def test_memory_is_bounded(functions: Functions) -> None:
    """By MemorySize, with room for what the runtime itself takes."""
    assert ask(functions, "len(bytearray(64 << 20))") == 64 << 20
    assert ask(functions, "len(bytearray(512 << 20))") == "MemoryError"
    assert ask(functions, "len(bytearray(512 << 20))", memory_mib=1024) == 512 << 20


def test_time_is_bounded_with_all_it_started(functions: Functions) -> None:
    """A worker past its time-out is killed, and the processes it began."""
    started = ask(functions, "[subprocess.Popen(['sleep', '77']), __import__('time').sleep(60)]", timeout_s=1)
    assert started == "Sandbox.Timedout"
    until_s = time.monotonic() + 60
    while left := _sleepers():
        assert time.monotonic() < until_s, left
        time.sleep(0.05)


def _sleepers(seconds: int = 77) -> list[int]:
    found = psutil.process_iter(["cmdline", "status"])
    named = [one for one in found if one.info["cmdline"] == ["sleep", str(seconds)]]
    return [one.pid for one in named if one.info["status"] != psutil.STATUS_ZOMBIE]


def _gone(seconds: int) -> bool:
    return _came_to(seconds, there=False)


def _came_to(seconds: int, *, there: bool) -> bool:
    until_s = time.monotonic() + 60
    while bool(_sleepers(seconds)) != there and time.monotonic() < until_s:
        time.sleep(0.05)
    return bool(_sleepers(seconds)) == there


# A daemon as daemons are made: nobody's child, in a session and group of its own, with none of its parent's files.
_DAEMON = (
    "(os.fork() or (os.setsid(), os.fork() or "
    "(os.closerange(0, 256), os.execvp('sleep', ['sleep', '{}'])), os._exit(0)))"
)


@pytest.fixture(params=["as it is", "none"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With what this machine has, and without: then only the keeper ends what is left."""
    if request.param == "none":
        monkeypatch.setattr(sandbox, "sandbox_kind", lambda: "none")
    return str(request.param)


@linux
def test_a_daemon_ends_with_the_time_out(functions: Functions, kind: str) -> None:
    """Whatever session it is in, and whoever is its parent by then."""
    number = 4242 if kind == "none" else 4243
    asked = f"[{_DAEMON.format(number)}, os.wait(), __import__('time').sleep(60)]"
    assert ask(functions, asked, timeout_s=2) == "Sandbox.Timedout"
    assert _gone(number)


@linux
def test_a_daemon_ends_with_the_local_cloud(functions: Functions, kind: str) -> None:
    """It lives on after its event, as a frozen one would thaw on Lambda, and not after `down`."""
    number = 4244 if kind == "none" else 4245
    assert ask(functions, f"[{_DAEMON.format(number)}, os.wait()] and 1") == 1
    assert _came_to(number, there=True)
    functions.close()
    assert _gone(number)


@linux
def test_a_daemon_ends_with_its_function(functions: Functions, kind: str) -> None:
    """A worker that ends by itself leaves nobody."""
    number = 4246 if kind == "none" else 4247
    assert ask(functions, f"[{_DAEMON.format(number)}, os.wait(), os._exit(3)]") == "Runtime.ExitError"
    assert _gone(number)


_SHARED = (
    "(lambda m: [m.__setitem__(at, 1) for at in range(0, len(m), 4096)] and 1)(__import__('mmap').mmap(-1, {} << 20))"
)
_HELD = "(lambda b: __import__('time').sleep(60))(bytearray(60 << 20))"


@linux
@pytest.mark.parametrize(
    "taken",
    [
        _SHARED.format(1500),
        f"[os.fork() or {_HELD} for _ in range(12)] and __import__('time').sleep(60)",
        "[os.write(os.memfd_create('m'), bytes(64 << 20)) for _ in range(12)] and __import__('time').sleep(60)",
    ],
    ids=["shared memory", "many processes", "files in memory"],
)
def test_memory_is_bounded_for_all_processes_together(functions: Functions, kind: str, taken: str) -> None:
    """256 MiB and the runtime's 256 are less than these; Lambda ends such a function by SIGKILL."""
    assert ask(functions, taken, memory_mib=256, timeout_s=50) == "Runtime.ExitError"


@linux
def test_memory_that_processes_share_counts_once(functions: Functions, kind: str) -> None:
    """Six processes with the same 200 MiB, of which each looks at some for half a second."""
    forked = "(lambda b: [os.fork() or (__import__('time').sleep(0.5), os._exit(b[9])) for _ in range(6)])"
    asked = f"{forked}(bytearray(200 << 20)) and [os.wait()[1] for _ in range(6)]"
    assert ask(functions, asked, memory_mib=256) == [0] * 6


@landlocked
def test_processes_are_bounded(functions: Functions) -> None:
    """1,024 on Lambda, which refuses the next one."""
    if ask(functions, "os.getpid()") != 2:
        pytest.skip("this machine has no namespaces for users")
    forked = "[os.fork() or __import__('time').sleep(60) for _ in range(1100)]"
    assert ask(functions, forked, memory_mib=3008, timeout_s=50) == "BlockingIOError"


@pytest.mark.parametrize(("number", "said"), [(9, "signal: killed"), (11, "signal: segmentation fault")])
def test_a_signal_is_told_in_lambdas_words(functions: Functions, number: int, said: str) -> None:
    """`Runtime exited with error: signal: killed` is what Lambda says of a function that is out of memory."""
    assert said in str(ended(functions, f"os.kill(os.getpid(), {number})"))


def test_an_exit_is_told_with_its_status(functions: Functions) -> None:
    """As the program said it, not as the worker's end was forced."""
    assert str(ended(functions, "os._exit(3)")).endswith("Runtime exited with error: exit status 3")


def test_without_a_sandbox_the_limits_hold(tmp_path: Path) -> None:
    """A fresh home and bounded memory need nothing of the kernel."""
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, resource\n"
        "print(json.dumps([os.environ['HOME'], resource.getrlimit(resource.RLIMIT_DATA)[0]]))"
    )
    confinement = Confinement(tmp_path / "own", (tmp_path,), 128)
    ran = subprocess.run(
        sandbox._command("none", confinement, [str(program)]),
        env=sandbox.environment(confinement),
        capture_output=True,
        check=True,
    )
    assert json.loads(ran.stdout) == [str(tmp_path / "own"), (128 + 256) << 20]


def test_bubblewrap_is_shown_what_landlock_would_allow(tmp_path: Path) -> None:
    """Read-only what is read, writable the own folder, and `/tmp` is that folder."""
    confinement = Confinement(tmp_path / "own", (tmp_path / "code",), 128)
    command = sandbox._command("bubblewrap", confinement, ["/program.py"])
    text, inner = " ".join(command), command[command.index("--") + 1 :]
    assert command[0] == "bwrap" and "-I" in inner
    assert f"--ro-bind-try {tmp_path / 'code'} {tmp_path / 'code'}" in text
    assert f"--bind {tmp_path / 'own'} /tmp" in text
    assert str(Path.home()) not in [
        command[at + 1] for at, word in enumerate(command) if word.startswith(("--bind", "--ro"))
    ]
