"""The results file: what is stored survives a kill, half a line does not, and the end is one line a key."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import run_process

from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation.journal import Journal


def row(key: str, error: object = None, text: str = "a") -> dict[str, object]:
    return {"key": key, "text": text, "error": error, "request_sha256": f"sha-{key}"}


def keys(path: Path) -> list[str]:
    return [orjson.loads(line)["key"] for line in path.read_bytes().splitlines()]


def test_what_was_appended_is_known_to_the_next_run(tmp_path: Path) -> None:
    """Keys, whether they were answered, of which request, and the line itself."""
    with Journal(tmp_path / "r", resume=False) as journal:
        journal.append(row("1", text="grüße"))
        journal.append(row("2", error={"code": "x"}))
    with Journal(tmp_path / "r", resume=True) as journal:
        assert {key: place.answered for key, place in journal.stored.items()} == {"1": True, "2": False}
        assert journal.stored["1"].request == "sha-1"
        assert journal.row("1")["text"] == "grüße"


@given(st.data())
def test_a_file_cut_anywhere_holds_its_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """After a crash at any byte the whole lines are known, the half one is gone, and appending goes on behind them."""
    path = tmp_path_factory.mktemp("cut") / "r"
    with Journal(path, resume=False) as journal:
        for number in range(4):
            journal.append(row(str(number), text="ä\n" * number))
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    with Journal(path, resume=True) as journal:
        assert list(journal.stored) == [str(number) for number in range(whole[:cut].count(b"\n"))]
        journal.append(row("new"))
        assert journal.row("new") == row("new")
    assert keys(path)[-1] == "new" and path.read_bytes().endswith(b"\n")


def test_a_killed_writer_leaves_every_line_it_finished(tmp_path: Path) -> None:
    """`kill -9` right after the hundredth append: a hundred lines."""
    code = (
        "import os, signal, sys; from pathlib import Path; from loadproof.invocation.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1]), resume=False)\n"
        "for n in range(100): journal.append({'key': str(n), 'error': None, 'request_sha256': 'x'})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "r")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert keys(tmp_path / "r") == [str(n) for n in range(100)]


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    """Without resume it is refused and left as it is; the message names both ways on."""
    (tmp_path / "r").write_text("mine")
    with pytest.raises(InputError, match="--resume, or give another --output"):
        Journal(tmp_path / "r", resume=False)
    assert (tmp_path / "r").read_text() == "mine"


@pytest.mark.parametrize("line", ["mine", "[1]", '{"a": 1}', '{"key": 7, "error": null, "request_sha256": "x"}'])
def test_a_file_of_somebody_else_is_refused_by_line_and_left_alone(tmp_path: Path, line: str) -> None:
    """Also with resume, and also where the last line is a half one."""
    with Journal(tmp_path / "r", resume=False) as journal:
        journal.append(row("1"))
    text = (tmp_path / "r").read_text() + line + "\nhalf"
    (tmp_path / "r").write_text(text)
    with pytest.raises(InputError, match=r"r:2: not a result of `loadproof run`"):
        Journal(tmp_path / "r", resume=True)
    assert (tmp_path / "r").read_text() == text


@pytest.mark.parametrize("text", ["a letter", '{"name": "value"}', "[1, 2]", "\x00"])
def test_a_file_without_a_line_end_is_not_taken_for_half_a_result(tmp_path: Path, text: str) -> None:
    """Somebody's JSON document is refused, not cut off and deleted as what a killed run left behind."""
    (tmp_path / "r").write_text(text)
    with pytest.raises(InputError, match=r"r:1: not a result of `loadproof run`"):
        Journal(tmp_path / "r", resume=True)
    assert (tmp_path / "r").read_text() == text


def test_two_runs_cannot_write_the_same_file(tmp_path: Path) -> None:
    """The second one is told; after the first one's end it may."""
    with Journal(tmp_path / "r", resume=False), pytest.raises(InputError, match="another run"):
        Journal(tmp_path / "r", resume=True)
    with Journal(tmp_path / "r", resume=True):
        pass


def test_the_end_leaves_one_line_a_key(tmp_path: Path) -> None:
    """A failure that was answered later is gone; the others stand as they ended."""
    with Journal(tmp_path / "r", resume=False) as journal:
        for one in (row("b", error={"code": "x"}), row("c"), row("a"), row("b")):
            journal.append(one)
        journal.finish()
    assert keys(tmp_path / "r") == ["c", "a", "b"]
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_the_end_puts_lines_in_the_order_asked_for(tmp_path: Path) -> None:
    """Keys that have no line yet are passed over."""
    with Journal(tmp_path / "r", resume=False) as journal:
        for key in "cab":
            journal.append(row(key))
        journal.finish(order=["a", "b", "missing", "c"])
    assert keys(tmp_path / "r") == ["a", "b", "c"]


def test_results_of_keys_that_are_not_in_the_order_stay_behind_it(tmp_path: Path) -> None:
    """An input that was shortened to what is left costs nobody the answers that are there."""
    with Journal(tmp_path / "r", resume=False) as journal:
        for key in "dcab":
            journal.append(row(key))
        journal.finish(order=["a", "b"])
    assert keys(tmp_path / "r") == ["a", "b", "d", "c"]


def test_a_disk_that_is_full_is_told_and_costs_one_line(tmp_path: Path) -> None:
    """A file of at most 1,000 bytes: the message names it and the way on; the next run knows what was whole."""
    code = (
        "import resource, sys; from pathlib import Path; from loadproof.invocation.journal import Journal\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "with Journal(Path(sys.argv[1]), resume=False) as journal:\n"
        "    for n in range(100): journal.append({'key': str(n), 'error': None, 'request_sha256': 'x' * 60})\n"
    )
    done = run_process([sys.executable, "-c", code, str(tmp_path / "r")])
    assert "r: cannot be written (File too large); all before is stored: make room" in done.stderr
    with Journal(tmp_path / "r", resume=True) as journal:
        # {"key":"0","error":null,"request_sha256":"<60>"} and its line end are 107 bytes: nine fit.
        assert list(journal.stored) == [str(n) for n in range(9)]


def test_results_that_cannot_be_put_in_order_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second file finds no room: it is gone again, and the first one is whole."""
    with Journal(tmp_path / "r", resume=False) as journal:
        for key in "ba":
            journal.append(row(key))

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(CouldNotRunError, match=r"not put in order \(No space left"):
            journal.finish(order=["a", "b"])
    assert keys(tmp_path / "r") == ["b", "a"]
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full", "/dev/zero"])
def test_what_is_no_file_is_refused(device: str) -> None:
    """A device cannot be cut or replaced, and may be read for ever."""
    with pytest.raises(InputError, match=f"{device}: is no file for results"):
        Journal(Path(device), resume=True)


def test_a_file_put_in_order_keeps_its_rights(tmp_path: Path) -> None:
    """Answers that only their owner may read stay so."""
    path = tmp_path / "r"
    path.touch(0o600)
    with Journal(path, resume=True) as journal:
        for key in "ba":
            journal.append(row(key))
        journal.finish(order=["a", "b"])
    assert (keys(path), stat.S_IMODE(path.stat().st_mode)) == (["a", "b"], 0o600)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """The file that it leads to is put in order; a file of somebody's that has a like name is not touched."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "real.new").write_text("mine")
    (tmp_path / "r").symlink_to("elsewhere/real")
    with Journal(tmp_path / "r", resume=True) as journal:
        for key in "ba":
            journal.append(row(key))
        journal.finish(order=["a", "b"])
    assert (tmp_path / "r").is_symlink() and keys(tmp_path / "elsewhere" / "real") == ["a", "b"]
    assert (tmp_path / "elsewhere" / "real.new").read_text() == "mine"


def test_what_a_run_takes_back_is_gone_and_what_was_there_stays(tmp_path: Path) -> None:
    """Only lines since the opening go."""
    with Journal(tmp_path / "r", resume=False) as journal:
        journal.append(row("a"))
    with Journal(tmp_path / "r", resume=True) as journal:
        journal.append(row("b"))
        journal.forget()
    assert keys(tmp_path / "r") == ["a"]


def test_a_line_knows_who_was_asked(tmp_path: Path) -> None:
    """Empty where the line does not say."""
    with Journal(tmp_path / "r", resume=False) as journal:
        journal.append(row("a") | {"target": "bedrock://m"})
        journal.append(row("b"))
    with Journal(tmp_path / "r", resume=True) as journal:
        assert [journal.stored[key].target for key in "ab"] == ["bedrock://m", ""]
