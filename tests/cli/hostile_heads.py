"""Pull requests of people who mean harm: each changes a project's repository, and is reviewed as a stranger's.

Each attack has one honest change beside it (`dev/search` grows), so that what is left of the review can be looked at.
Everything that runs, or is read, of what it must not be leaves a trace: `Traps` holds what an attack aims at.
"""

from __future__ import annotations

import json
import marshal
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import Any, Final, TypeVar

from review_repository import Project

CANARY: Final = "canary-5f1d2a"  # no byte of it may be in anything that a review writes
MEMORY_MIB: Final = 1024
Attack = Callable[[Project, "Traps"], object]
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Traps:
    """`ran`: a file that only code of the attacker makes. `secret`: a file that nobody gave to the review."""

    ran: Path
    secret: Path

    @property
    def code(self) -> str:
        """Python that springs the trap, and goes on as if nothing were."""
        return f"open({str(self.ran)!r}, 'w').close()\n"


def attacks() -> Iterator[tuple[str, Attack]]:
    """Every attack by its name."""
    yield from _code()
    yield from _files()
    yield from _paths_in_profiles()
    yield from _links()
    yield from _git()
    yield from configured()
    yield from _names()
    yield from _forgeries()


def _code() -> Iterator[tuple[str, Attack]]:
    """Files that some program runs because of where they lie or what they are called."""
    python = (
        "app.py", "stacks/__init__.py", "stacks/queue.py", "json.py", "pathlib.py", "os.py", "sitecustomize.py",
        "usercustomize.py", "conftest.py", "setup.py", "stacks/queue/__init__.py", "loadproof/__init__.py",
        "deploy_profiles/__init__.py", "deploy_profiles/dev/__init__.py", "deploy_profiles/json.py",
        "lib/python3.11/site-packages/evil.pth", "scripts/app.py",
    )  # fmt: skip
    for path in python:
        yield f"code {path}", _with(path, lambda project, traps, path: _put(project, path, "import os\n" + traps.code))
    shell = ("node_modules/.bin/cdk", ".venv/bin/python", "python3", "node", "git", ".husky/pre-commit", "Makefile")
    for path in shell:
        yield f"program {path}", _with(path, lambda project, traps, path: _program(project, path, f"touch {traps.ran}"))
    yield "compiled beside the source", _compiled
    for named in ("app.py", "stacks/queue.py", "json.py", "stacks/new.py"):
        yield f"a profile's dataset is the code {named}", _with(named, _dataset_of_code)


def _files() -> Iterator[tuple[str, Attack]]:
    yield "cdk.json with an app", lambda p, t: _put(p, "cdk.json", json.dumps({"app": f"touch {t.ran}"}))
    yield "cdk.json no JSON", lambda p, t: _put(p, "cdk.json", "{")
    yield "cdk.json a list", lambda p, t: _put(p, "cdk.json", "[1]")
    yield "no app.py", lambda p, t: (p.root / "app.py").unlink()
    yield "no code at all", lambda p, t: _emptied(p, "app.py", "cdk.json", "stacks/queue.py", "stacks/__init__.py")
    yield "cdk.context.json", lambda p, t: _put(p, "cdk.context.json", '{"queue": {"KmsMasterKeyId": "evil"}}')
    yield ".env", lambda p, t: _put(p, ".env", f"PYTHONSTARTUP={t.ran}\n")
    yield ".npmrc", lambda p, t: _put(p, ".npmrc", "script-shell=/bin/evil\n")
    yield "pyproject.toml", lambda p, t: _put(p, "pyproject.toml", "[tool.loadproof]\n")
    yield "cdk.out left there", lambda p, t: _put(p, "cdk.out/manifest.json", '{"artifacts": {}}')
    yield "requirements", lambda p, t: _put(p, "requirements.txt", "evil @ file:///tmp/evil\n")


def _paths_in_profiles() -> Iterator[tuple[str, Attack]]:
    """Profiles that name what is not theirs."""
    for way in ("up", "absolute", "file", "home", "proc"):
        for name in ("dataset", "tokenizer", "trace", "extends", "calibration"):
            yield f"{name} {way}", _with((way, name), lambda p, t, it: _names_secret(p, it[1], _way(p, t, it[0])))


def _links() -> Iterator[tuple[str, Attack]]:
    chat = "deploy_profiles/dev/chat.yaml"
    for what in ("up", "absolute", "proc"):
        yield f"profile links {what}", _with(what, lambda p, t, what: _link(p, chat, _way(p, t, what)))
        yield (
            f"environment links {what}",
            _with(what, lambda p, t, what: _link(p, "deploy_profiles/dev/environment.yaml", _way(p, t, what))),
        )
        yield f"code links {what}", _with(what, lambda p, t, what: _link(p, "stacks/queue.py", _way(p, t, what)))
        yield (
            f"evidence links {what}",
            _with(what, lambda p, t, what: _link(p, "evidence/run/summary.json", _way(p, t, what))),
        )
    yield "profile links to a device", lambda p, t: _link(p, chat, "/dev/zero")
    yield "profile links to itself", lambda p, t: _link(p, chat, "chat.yaml")
    yield "environment's folder is a link", lambda p, t: _link(p, "deploy_profiles/prod", str(t.secret.parent))
    yield "a link to all", lambda p, t: _link(p, "deploy_profiles/dev/all", "../..")
    yield (
        "app.py leads below the profiles",
        _steps(
            lambda p, t: _put(p, "deploy_profiles/dev/evil.py", t.code),
            lambda p, t: _link(p, "app.py", "deploy_profiles/dev/evil.py"),
        ),
    )
    yield (
        "stacks lead below the profiles",
        _steps(
            lambda p, t: _put(p, "deploy_profiles/dev/evil/queue.py", t.code),
            lambda p, t: _emptied(p, "stacks/queue.py", "stacks/__init__.py"),
            lambda p, t: _link(p, "stacks", "deploy_profiles/dev/evil"),
        ),
    )
    yield "a chain of links", _chain
    yield "a thousand links", _many_links
    for what, target in (("with a NUL", b"a\0b"), ("to nothing", b""), ("to a long name", b"a" * 3000)):
        yield (
            f"a profile is a link {what}",
            _with(target, lambda p, t, target: _raw(p, {"deploy_profiles/dev/new.yaml": ("120000", target)})),
        )
        yield (
            f"an environment is a link {what}",
            _with(target, lambda p, t, target: _raw(p, {"deploy_profiles/prod/environment.yaml": ("120000", target)})),
        )
    yield "a link longer than a path", lambda p, t: _raw(p, {"deploy_profiles/dev/long.yaml": ("120000", b"a/" * 9000)})


def _git() -> Iterator[tuple[str, Attack]]:
    yield (
        "attributes with another encoding",
        lambda p, t: _raw(p, {".gitattributes": ("100644", b"* working-tree-encoding=UTF-16\n")}),
    )
    yield "a commit with a long message", lambda p, t: p.commit("x" * 100_000)
    yield (
        "attributes that are a folder, too",
        lambda p, t: _raw(p, {f".gitattributes{more}": ("100644", b"* ident\n") for more in ("", "/.gitattributes")}),
    )
    yield (
        "attributes in a folder that Windows does not take",
        lambda p, t: _raw(p, {"git~1/.gitattributes": ("100644", b"* ident\n")}),
    )
    yield "submodules", _submodules
    yield "a submodule for the profiles", lambda p, t: _raw(p, {"deploy_profiles/dev": ("160000", b"")})
    for path in (".git/config", ".GIT/config", "deploy_profiles/.git/hooks/post-checkout", "deploy_profiles/dev/.."):
        yield (
            f"a path {path}",
            _with(path, lambda p, t, path: _raw(p, {path: ("100755", f"#!/bin/sh\ntouch {t.ran}".encode())})),
        )


def configured() -> Iterator[tuple[str, Attack]]:
    """Programs that the machine's configuration names, reached by what is pushed."""
    yield "attributes with a filter", lambda p, t: _filter(p, t, "clean")
    yield "attributes with a process", lambda p, t: _filter(p, t, "process")
    yield "attributes with a text conversion", _text_conversion
    yield "a file system monitor", lambda p, t: _configured(p, "core.fsmonitor", _trap_program(p, t))
    for name in ("filter.evil.clean", "core.fsmonitor"):
        yield (
            f"a submodule's {name}",
            _with(name, lambda p, t, name: _submodule_configured(p, name, _trap_program(p, t))),
        )
    yield "a diff of the configuration", lambda p, t: _configured(p, "diff.external", _trap_program(p, t))
    yield "an alias for plumbing", lambda p, t: _configured(p, "alias.ls-tree", f"!touch {t.ran}")


def _names() -> Iterator[tuple[str, Attack]]:
    names = (
        "a\nb", "a\tb", "$(touch ran)", "`touch ran`", "; touch ran", "-c", "--output=x", "\u202eyaml.tahc", "a'b",
        'a"b', "<img src=x>", "&#64;everyone", "[x](https://evil.example)", "@everyone", "#1", "a|b", "e\u0301",
        "\ufeffa", "a" * 200, "CON", "environment", "..x", "%2e%2e", "a\\b", "\x1b[2J",
    )  # fmt: skip
    for name in names:
        yield f"profile called {name[:20]!r}", _with(name, lambda p, t, name: p.profile(f"dev/{name}"))
    yield (
        "profile called by no text",
        lambda p, t: _raw(
            p,
            {b"deploy_profiles/dev/\xff\xfe.yaml": ("100644", _bytes_of(p))},
        ),
    )
    yield (
        "profile of a name that no disk takes",
        lambda p, t: _raw(p, {f"deploy_profiles/dev/{'a' * 300}.yaml": ("100644", _bytes_of(p))}),
    )
    for folders in (101, 1500, 3000):  # Python's own recursion ends at a thousand, git's at 2,048 in newer ones
        path = "d/" * folders
        yield f"a file {folders} folders deep", _with(path, lambda p, t, path: _deep(p, f"{path}x.yaml"))
    yield "evidence 1500 folders deep", lambda p, t: _deep(p, f"evidence/{'d/' * 1500}plan.json")
    yield "a link 1500 folders deep", lambda p, t: _deep(p, "d/" * 1500 + "x.yaml", "120000")
    yield "a profile that extends one 1500 folders deep", _extends_deep
    yield (
        "evidence of a name that no disk takes",
        lambda p, t: _raw(p, {f"evidence/{'a' * 300}/plan.json": ("100644", b"{}")}),
    )
    yield (
        "evidence that is a folder, too",
        lambda p, t: _raw(p, {f"evidence/r/plan.json{more}": ("100644", b"{}") for more in ("", "/plan.json")}),
    )
    yield (
        "a trace of a name that no disk takes",
        lambda p, t: _names_secret(p, "trace", "a" * 300 + ".csv"),
    )
    yield (
        "a profile that is a folder, too",
        lambda p, t: _raw(p, {"deploy_profiles/dev/chat.yaml/environment.yaml": ("100644", _bytes_of(p))}),
    )
    yield (
        "code of a name that no disk takes",
        lambda p, t: _raw(p, {f"stacks/{'a' * 300}.py": ("100644", b"")}),
    )
    yield "environment called by a line end", lambda p, t: _put(p, "deploy_profiles/a\nb/environment.yaml", "x: 1")


def bombs() -> Iterator[tuple[str, Attack]]:
    """Small pushes that ask for much."""
    chat = "deploy_profiles/dev/chat.yaml"
    yield "many large profiles", lambda p, t: _many_large(p)
    yield "a huge profile", lambda p, t: _huge(p, chat, 600)
    yield "a huge environment", lambda p, t: _huge(p, "deploy_profiles/dev/environment.yaml", 300)
    yield "huge code", lambda p, t: _huge(p, "stacks/queue.py", 300)
    yield "a huge cdk.json", lambda p, t: _huge(p, "cdk.json", 300)
    yield "huge evidence", lambda p, t: _huge(p, "evidence/run/summary.json", 300)
    yield "many huge plans", lambda p, t: _many_plans(p, b'"' + b"x" * (15 << 20) + b'"')
    yield "plans of empty lists", lambda p, t: _many_plans(p, b"[" + b"[]," * (5 << 20) + b"0]")
    yield "huge attributes", lambda p, t: _huge(p, "deploy_profiles/dev/.gitattributes", 300)
    yield "huge attributes at the top", lambda p, t: _huge(p, ".gitattributes", 300)
    yield "attributes of many patterns", lambda p, t: _put(p, ".gitattributes", _attributes(100_000))
    yield (
        "huge files of git's own",
        _steps(*(_with(name, lambda p, t, name: _huge(p, name, 300)) for name in (".gitignore", ".gitmodules"))),
    )
    yield "a huge commit", _huge_commit
    yield "more links than are followed", lambda p, t: _many_links(p, t, 1100)
    yield "profiles that name each other", _naming
    yield "huge signers", lambda p, t: _huge(p, "deploy_profiles/signers.yaml", 300)
    yield "a tree without an end", _endless_tree
    yield "aliases", lambda p, t: _put(p, chat, _aliases(40))
    yield "nested", lambda p, t: _put(p, chat, "[" * 100_000)
    yield "nested maps", lambda p, t: _put(p, chat, "".join(f"{' ' * at}a:\n" for at in range(600)))
    yield (
        "parents in a circle",
        _steps(
            lambda p, t: p.profile("dev/chat", extends="search.yaml"),
            lambda p, t: p.profile("dev/search", extends="chat.yaml"),
        ),
    )
    yield "a number of a million digits", lambda p, t: _put(p, chat, f"name: chat\nmodel: {{id: {'9' * 200_000}}}\n")
    yield "zero bytes", lambda p, t: _put(p, chat, "name: chat\0\n")
    yield "another encoding", lambda p, t: _raw(p, {chat: ("100644", "name: chat".encode("utf-16"))})
    yield "no text", lambda p, t: _raw(p, {chat: ("100644", bytes(range(256)))})
    yield "a list of a hundred thousand", lambda p, t: _put(p, chat, "x: [" + "1," * 100_000 + "1]")


def _forgeries() -> Iterator[tuple[str, Attack]]:
    yield "evidence from nothing", lambda p, t: _put(p, "evidence/run/summary.json", '{"schema_version": 1}')
    yield "evidence of another shape", lambda p, t: _put(p, "evidence/run/evidence.json", "[[[]]]")
    yield "a plan nested without an end", lambda p, t: _put(p, "evidence/run/plan.json", "[" * 100_000)
    yield "a list of signers of the attacker", lambda p, t: _put(p, "deploy_profiles/signers.yaml", "signers: []")
    yield "a cache left there", lambda p, t: _put(p, ".cache/loadproof/x", "poison")
    yield "words of a verdict", lambda p, t: _profile(p, name="chat\n\n**MERGE** @everyone <img src=//evil.example>")


def _with(given: Given, attack: Callable[[Project, Traps, Given], object]) -> Attack:
    return lambda project, traps: attack(project, traps, given)


def _steps(*attacks: Attack) -> Attack:
    def whole(project: Project, traps: Traps) -> None:
        for one in attacks:
            one(project, traps)

    return whole


def _dataset_of_code(project: Project, traps: Traps, path: str) -> None:
    _put(project, path, traps.code)
    _profile(project, workload={"input_tokens": 9, "output_tokens": 9, "dataset": f"../../{path}"})


def _submodules(project: Project, traps: Traps) -> None:
    run = f"!touch {traps.ran}"
    _put(project, ".gitmodules", f'[submodule "x"]\n\tpath = x\n\turl = ext::touch {traps.ran}\n\tupdate = {run}\n')
    _raw(project, {"x": ("160000", b"")})


def _aliases(depth: int) -> str:
    """Each line is four of the one before: four to the fortieth values, if somebody follows them."""
    rows = [f"b{at}: &b{at} [{', '.join([f'*b{at - 1}'] * 4)}]\n" for at in range(1, depth)]
    return "b0: &b0 [x, x]\n" + "".join(rows)


def _put(project: Project, path: str, text: str) -> None:
    file = project.root / path
    if file.is_symlink() or file.is_file():
        file.unlink()
    if file.parent.is_file():
        file.parent.unlink()
    project.write(path, text)


def _profile(project: Project, **changes: Any) -> None:
    project.profile("dev/chat", **changes)


def _emptied(project: Project, *paths: str) -> None:
    for path in paths:
        (project.root / path).unlink()


def _program(project: Project, path: str, command: str) -> None:
    _put(project, path, f"#!/bin/sh\n{command}\n")
    (project.root / path).chmod(0o755)


def _trap_program(project: Project, traps: Traps) -> Path:
    file = project.root.parent / "trap.sh"
    file.write_text(f"#!/bin/sh\ntouch {traps.ran}\ncat\n")
    file.chmod(0o755)
    return file


def _compiled(project: Project, traps: Traps) -> None:
    """A file of bytecode that Python takes unchecked (PEP 552), named as that of a source which did not change."""
    for source in ("app.py", "stacks/__init__.py", "stacks/queue.py"):
        body = compile(traps.code + "TIMEOUT_S = 60\n", source, "exec")
        head = MAGIC_NUMBER + struct.pack("<I", 1) + bytes(8)
        file = Path(cache_from_source(str(project.root / source)))
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(head + marshal.dumps(body))


def _way(project: Project, traps: Traps, way: str) -> str:
    return {
        "up": os.path.relpath(traps.secret, project.root / "deploy_profiles" / "dev"),
        "absolute": str(traps.secret),
        "file": traps.secret.as_uri(),
        "home": f"~/{traps.secret.name}",
        "proc": "/proc/self/environ",
    }[way]


def _names_secret(project: Project, field: str, path: str) -> None:
    workload: dict[str, object] = {"input_tokens": 256, "output_tokens": 64}
    if field in ("dataset", "tokenizer"):
        _profile(project, workload={**workload, field: path})
    elif field == "trace":
        _profile(project, workload={**workload, "arrivals": {"process": "trace", "trace": path}})
    else:
        _profile(project, **{field: path})


def _link(project: Project, path: str, target: str) -> None:
    file = project.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.is_file() or file.is_symlink():
        file.unlink()
    elif file.is_dir():
        for one in sorted(file.rglob("*"), reverse=True):
            one.rmdir() if one.is_dir() and not one.is_symlink() else one.unlink()
        file.rmdir()
    file.symlink_to(target)


def _chain(project: Project, traps: Traps) -> None:
    folder = project.root / "deploy_profiles" / "dev"
    for at in range(40):
        (folder / f"link{at}.yaml").symlink_to(f"link{at + 1}.yaml")
    (folder / "link40.yaml").symlink_to(traps.secret)


def _many_links(project: Project, traps: Traps, count: int = 1000) -> None:
    folder = project.root / "deploy_profiles" / "dev" / "links"
    folder.mkdir()
    for at in range(count):
        (folder / f"{at}").symlink_to("../..")


def _naming(project: Project, traps: Traps) -> None:
    """Each names all, and far more than there is."""
    names = [f"p{at}.yaml" for at in range(120)]
    more = ", ".join([*names, *(f"a{at:x}" for at in range(500))])
    for name in names:
        file = project.profile(f"dev/{name.removesuffix('.yaml')}")
        file.write_text(f"{file.read_text()}x: [{more}]\n")


def _configured(project: Project, name: str, value: str | Path) -> None:
    """A line of the machine's own configuration (LFS has such lines everywhere), there once the attack is committed.

    Files are then newer than git's index, so that git has to look at what is in them.
    """
    project.commit("the attack")
    project.git("config", name, str(value))
    for file in (project.root / "deploy_profiles").rglob("*.yaml"):
        file.write_text(file.read_text() + "# as it lies here\n")


def _submodule_configured(project: Project, name: str, value: str | Path) -> None:
    """A submodule that is cloned here, whose own configuration git reads when it looks into it."""
    made = project.root.parent / "submodule"
    shutil.copytree(project.root, made)
    there = object.__new__(Project)
    there.root = made
    there.write(".gitattributes", "* filter=evil\n")
    there.commit()
    project.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(made), "deploy_profiles/dev/sub")
    project.commit("the attack")
    there.root = project.root / "deploy_profiles/dev/sub"
    there.git("config", name, str(value))
    (there.root / "app.py").touch()
    there.write("deploy_profiles/dev/chat.yaml", "as it lies here\n")


def _filter(project: Project, traps: Traps, kind: str) -> None:
    _put(project, ".gitattributes", "*.yaml filter=evil\n")
    _configured(project, f"filter.evil.{kind}", _trap_program(project, traps))
    project.git("config", "filter.evil.required", "true")


def _text_conversion(project: Project, traps: Traps) -> None:
    _put(project, ".gitattributes", "* diff=evil\n")
    _configured(project, "diff.evil.textconv", f"touch {traps.ran}")


def _bytes_of(project: Project) -> bytes:
    """Of an honest profile."""
    return (project.root / "deploy_profiles/dev/chat.yaml").read_bytes()


def _raw(project: Project, entries: dict[str, tuple[str, bytes]] | dict[bytes, tuple[str, bytes]]) -> None:
    """Entries of any path and mode, past the checks of git's front door; they are committed at once."""
    index = project.root.parent / "index"
    said = {**os.environ, "GIT_INDEX_FILE": str(index)}

    def git(*arguments: str, given: bytes = b"") -> bytes:
        command = ["git", "-c", "core.protectNTFS=false", "-c", "core.protectHFS=false", *arguments]
        return subprocess.run(command, cwd=project.root, env=said, input=given, check=True, capture_output=True).stdout

    tree = git("rev-parse", "HEAD^{tree}").strip()
    for name, (mode, content) in entries.items():
        path = name if isinstance(name, bytes) else name.encode()
        one = b"1" * 40 if mode == "160000" else git("hash-object", "-w", "--stdin", given=content).strip()
        tree = _with_entry(git, tree, path.split(b"/"), mode.encode(), one)
    commit = project.git("commit-tree", tree.decode(), "-p", "HEAD", "-m", "raw")
    project.git("update-ref", "HEAD", commit)


def _deep(project: Project, path: str, mode: str = "100644") -> None:
    """A file that no `mkdir` comes to, below the profiles if not below the evidence; by one process for all folders."""
    top = "" if path.startswith("evidence/") else "deploy_profiles/dev/"
    said = (
        "commit refs/heads/head\ncommitter a <a@example.com> 1767225600 +0000\ndata 1\nx\n"
        f"from refs/heads/head^0\nM {mode} inline {top}{path}\ndata 1\nx\n"
    )
    subprocess.run(["git", "fast-import", "--quiet"], cwd=project.root, input=said.encode(), check=True)


def _extends_deep(project: Project, traps: Traps) -> None:
    _profile(project, extends="d/" * 1500 + "x.yaml")
    project.commit("the attack")
    _deep(project, "d/" * 1500 + "x.yaml")


def _with_entry(git: Callable[..., bytes], tree: bytes | None, parts: list[bytes], mode: bytes, one: bytes) -> bytes:
    """The id of a tree with one more entry, made by `mktree`, which takes any name."""
    rows = {}
    if tree is not None:
        for row in git("ls-tree", "-z", tree.decode()).split(b"\0"):
            if row:
                facts, _, name = row.partition(b"\t")
                rows[name] = facts
    if len(parts) == 1:
        kind = b"commit" if mode == b"160000" else b"blob"
        rows[parts[0]] = mode + b" " + kind + b" " + one
    else:
        below = rows.get(parts[0], b"").split()
        inner = _with_entry(git, below[2] if below[1:2] == [b"tree"] else None, parts[1:], mode, one)
        beside = b"/" if below[1:2] == [b"blob"] else b""  # a file stays, and the folder has its name
        rows[parts[0] + beside] = b"040000 tree " + inner
    given = b"".join(facts + b"\t" + name.removesuffix(b"/") + b"\0" for name, facts in rows.items())
    return git("mktree", "-z", "--missing", given=given).strip()


def _huge(project: Project, path: str, mib: int) -> None:
    """A blob of zeros, which git packs to next to nothing."""
    file = project.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as opened:
        opened.truncate(mib << 20)


def _huge_commit(project: Project, traps: Traps) -> None:
    """Of a message that git holds whole to read the two lines before it."""
    said = project.git("cat-file", "commit", "HEAD").encode() + b"\n"
    file = project.root.parent / "commit"
    with file.open("wb") as opened:
        opened.write(said)
        opened.truncate(600 << 20)
    one = project.git("hash-object", "-w", "--literally", "-t", "commit", str(file))
    file.unlink()
    (project.root / ".git/refs/heads/head").write_text(f"{one}\n")


def _attributes(count: int) -> str:
    return "".join(f"*{at}* a{at}=1\n" for at in range(count))


def _many_plans(project: Project, value: bytes) -> None:
    """One blob, the plan of forty runs."""
    content = b'{"schema_version":2,"a":' + value + b"}"
    for at in range(40):
        file = project.root / f"evidence/r{at}/plan.json"
        file.parent.mkdir(parents=True)
        file.write_bytes(content)


def _many_large(project: Project) -> None:
    """Each below the bound of a file, together above that of a side."""
    for at in range(36):
        with (project.root / f"deploy_profiles/dev/big{at}.yaml").open("wb") as opened:
            opened.write(b"# %d\n" % at)
            opened.truncate(15 << 20)


def _endless_tree(project: Project, traps: Traps) -> None:
    """Ten entries that are each ten of the next: ten to the twelfth files out of a dozen objects."""
    blob = project.git("hash-object", "-w", "app.py")
    rows = "".join(f"100644 blob {blob}\tf{at}\n" for at in range(10))
    for _ in range(12):
        tree = subprocess.run(
            ["git", "mktree"], cwd=project.root, input=rows, check=True, capture_output=True, text=True
        ).stdout.strip()
        rows = "".join(f"040000 tree {tree}\td{at}\n" for at in range(10))
    whole = project.git("ls-tree", "HEAD")
    made = subprocess.run(
        ["git", "mktree"],
        cwd=project.root,
        input=f"{whole}\n040000 tree {tree}\tbomb\n",
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    project.git("update-ref", "HEAD", project.git("commit-tree", made, "-p", "HEAD", "-m", "bomb"))
