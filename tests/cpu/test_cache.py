"""The cache on disk: found again, rebuilt where damaged, safe between processes, dispensable."""

import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from numba import cuda

from refkit.cpu import cache, emulate, kernel
from refkit.cpu.runtime import build

pytestmark = pytest.mark.cpu


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("REFKIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entries(folder):
    return sorted(path for path in folder.glob("??/*") if path.is_file())


def counted(value):
    calls = []

    def make():
        calls.append(1)
        return value

    return make, calls


def test_a_value_is_made_once(folder):
    make, calls = counted((b"code", 17))
    name = cache.key("a", b"b")
    assert cache.fetch(name, make) == (b"code", 17)
    assert cache.fetch(name, make) == (b"code", 17)
    assert len(calls) == 1
    assert cache.fetch(cache.key("a", b"c"), make) == (b"code", 17)
    assert len(calls) == 2


def test_keys_tell_the_parts_apart():
    assert cache.key("ab", "c") != cache.key("a", "bc")
    assert cache.key("ab") == cache.key(b"ab")


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "other magic", "garbage"])
def test_a_damaged_entry_is_made_again(folder, damage):
    make, calls = counted({"bytes": b"x" * 1000})
    name = cache.key(damage)
    cache.fetch(name, make)
    (path,) = entries(folder)
    data = bytearray(path.read_bytes())
    if damage == "truncate":
        data = data[: len(data) // 2]
    elif damage == "flip":
        data[-10] ^= 1
    elif damage == "empty":
        data = b""
    elif damage == "other magic":
        data[0] ^= 1
    else:
        data = pickle.dumps("not an entry")
    path.write_bytes(data)
    assert cache.fetch(name, make) == {"bytes": b"x" * 1000}
    assert len(calls) == 2
    assert cache.fetch(name, make) == {"bytes": b"x" * 1000}
    assert len(calls) == 2


def test_no_file_is_left_half_written(folder):
    make, _ = counted(b"1")
    for i in range(20):
        cache.fetch(cache.key(str(i)), make)
    assert len(entries(folder)) == 20
    assert all(len(path.name) == 64 for path in entries(folder))


def test_the_least_recently_used_go_first(folder, monkeypatch):
    monkeypatch.setattr(cache, "_MOST_BYTES", 5000)
    monkeypatch.setattr(os, "urandom", lambda n: b"\0" * n)  # trims on every write
    for i in range(10):
        cache.fetch(cache.key(str(i)), lambda: b"y" * 1000)
        for age, path in enumerate(entries(folder)):
            os.utime(path, (1_000_000 + i - age, 1_000_000 + i - (path.name != cache.key("0"))))
    assert sum(path.stat().st_size for path in entries(folder)) <= 5000
    assert cache.key("0") in {path.name for path in entries(folder)}


def test_a_directory_that_cannot_be_written_costs_time_only(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("in the way")
    monkeypatch.setenv("REFKIT_CACHE_DIR", str(file / "below"))
    assert cache.directory() is None
    make, calls = counted(5)
    assert cache.fetch("n", make) == cache.fetch("n", make) == 5
    assert len(calls) == 2


def test_a_full_disk_costs_time_only(folder, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    make, calls = counted(5)
    assert cache.fetch(cache.key("n"), make) == cache.fetch(cache.key("n"), make) == 5
    assert len(calls) == 2


def test_the_environment_names_the_place(monkeypatch, tmp_path):
    monkeypatch.delenv("REFKIT_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.directory() == tmp_path / "refkit"


@pytest.fixture
def runtime():
    """The runtime in memory, so that the kernel alone is compiled into the folder."""
    build.device_bitcode()
    build.scheduler_address("rk_switch")


def test_a_kernel_is_compiled_once_and_again_after_damage(runtime, folder, monkeypatch):
    made = []
    machine_code = kernel._machine_code
    monkeypatch.setattr(kernel, "_machine_code", lambda *args: made.append(1) or machine_code(*args))

    def body(x):
        x[cuda.grid(1)] *= 3

    def run():
        x = np.arange(8)
        with emulate():
            cuda.jit(body_copy())[1, 8](x)
        np.testing.assert_array_equal(x, 3 * np.arange(8))

    def body_copy():
        """The same kernel as another function object, so that nothing in memory is found."""
        return type(body)(body.__code__, body.__globals__, body.__name__, None, body.__closure__)

    run()
    assert len(made) == 1
    with emulate():
        cuda.jit(lambda x: None)[1, 1](np.zeros(1))  # another kernel between: names count on
    run()
    assert len(made) == 2
    for path in entries(folder):
        path.write_bytes(path.read_bytes()[:-1] + b"\0")
    run()
    assert len(made) == 3


PROGRAM = """
    import sys
    from refkit.cpu import cache

    for turn in range(60):
        for i in range(5):
            expected = bytes([i]) * 200_000
            assert cache.fetch(cache.key(str(i)), lambda: expected) == expected
        if turn % 7 == 0:
            for path in cache.directory().glob("??/*"):
                path.unlink(missing_ok=True)
    print("done")
"""


def test_processes_side_by_side(folder, tmp_path):
    """Three processes read, write and delete the same entries: none ever sees a part of one."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    command = [sys.executable, str(script)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(3)]
    assert [process.communicate(timeout=120)[0] for process in processes] == ["done\n"] * 3
    assert all(len(path.name) == 64 for path in entries(folder))


def test_two_processes_make_an_entry_once(folder, tmp_path):
    code = f"""
        import pathlib, time
        from refkit.cpu import cache
        def make():
            pathlib.Path({str(tmp_path)!r}, str(time.monotonic_ns())).touch()
            time.sleep(0.5)
            return b"made"
        assert cache.fetch_once(cache.key("slow"), make) == b"made"
    """
    processes = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert len([path for path in tmp_path.iterdir() if path.is_file()]) == 1
    assert cache.holds(cache.key("slow"))
    assert not cache.holds(cache.key("never"))


def test_only_one_is_alone_and_a_lock_is_given_up(folder):
    with cache.only_here("a") as first, cache.only_here("a", wait=False) as second, cache.only_here("b") as other:
        assert (first, second, other) == (True, False, True)
    with cache.only_here("a", wait=False) as again:
        assert again


def test_without_a_folder_nobody_waits(monkeypatch):
    monkeypatch.setattr(cache, "directory", lambda: None)
    make, calls = counted(b"1")
    with cache.only_here("a") as first, cache.only_here("a", wait=False) as second:
        assert (first, second) == (True, True)
    assert cache.fetch_once("a", make) == b"1"
    assert len(calls) == 1


def test_whoever_cannot_build_the_scheduler_builds_something_else_meanwhile(folder, monkeypatch):
    built = []
    monkeypatch.setattr(build, "library_bitcode", lambda library: built.append(library.name))
    monkeypatch.setattr(build, "_scheduler_code", lambda: built.append("scheduler") or pytest.fail("built twice"))
    code = build.engine.machine_code(
        build.llvm.parse_assembly(build.engine.retarget("define void @rk_switch() { ret void }"))
    )
    name = cache.key("scheduler", build._source_key())
    monkeypatch.setattr(cache, "holds", lambda entry: entry == name and len(built) >= 2)
    monkeypatch.setattr(cache, "fetch_once", lambda entry, make: code)
    monkeypatch.setattr(build.llvm, "add_symbol", lambda *symbol: None)
    with cache.only_here(name):
        build._scheduler.__wrapped__()
    assert built == [library.name for library in build._common_libraries()][:2]
