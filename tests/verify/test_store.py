"""Failing cases on disk: whole, named by what they hold, and refused in one clear line where they are not usable."""

import json
import os
from pathlib import Path

import pytest

from refkit.verify.case import Case
from refkit.verify.store import CaseFileError, FailingCase, can_save, load, save, try_to_save, write_atomically

CASE = Case(dims={"R": 2, "C": 3}, config={"block": 64}, layouts={"x": "strided"}, scalars={"eps": 0.1}, seed=5)


def failing(**more) -> FailingCase:
    fields = {
        "target": "k.py",
        "name": "scale",
        "check": "accuracy",
        "examined_by": "layouts",
        "case": CASE,
        "seed": 3,
        "backend": "cpu",
        "message": "y[0] is nan",
    }
    return FailingCase.of(**{**fields, **more})


def test_a_case_comes_back_as_it_was(tmp_path):
    path = save(failing(), tmp_path / "new" / "folder")
    assert load(path) == failing()
    assert json.loads(path.read_text())["versions"]["numpy"]


def test_the_same_case_is_one_file_and_another_is_another(tmp_path):
    assert save(failing(), tmp_path) == save(failing(message="told differently"), tmp_path)
    assert save(failing(check="layouts"), tmp_path) != save(failing(), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no case file"),
        ("{", "is not a case file"),
        ("[]", "not a case file of schema 1"),
        ('{"schema": 2}', "not a case file of schema 1"),
        ('{"schema": 1, "target": "k.py"}', "not a complete case file"),
        ('{"schema": 1, "target": "", "spec": "a", "check": "b", "case": {"dims": 3}}', "not a complete case file"),
    ],
)
def test_an_unusable_file_is_one_clear_line(tmp_path, text, words):
    path = tmp_path / "case.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CaseFileError, match=words) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "result.json"
    path.write_text("old")
    with pytest.raises(TypeError):
        write_atomically(path, 5)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    write_atomically(path, "new")
    assert path.read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(path, "the result")
        assert os.read(reader, 100) == b"the result"
    finally:
        os.close(reader)
    assert path.is_fifo()
    assert [entry.name for entry in tmp_path.iterdir()] == ["pipe"]


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_half_of_a_file_name_is_written_escaped(tmp_path):
    write_atomically(tmp_path / "out.xml", os.fsdecode(b"caf\xe9"))
    assert (tmp_path / "out.xml").read_text() == "caf\\udce9"


def test_a_folder_that_cannot_be_made_is_known_before_and_costs_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    assert not can_save(tmp_path / "file" / "cases")
    assert try_to_save(failing(), tmp_path / "file" / "cases") == ""
    assert can_save(tmp_path / "new" / "folder")
    assert load(Path(try_to_save(failing(), tmp_path / "new" / "folder"))) == failing()


def test_the_name_of_a_case_file_fits_every_file_system(tmp_path):
    path = save(failing(name="größe" * 100), tmp_path)
    assert path.name.isascii()
    assert len(path.name) < 120
    assert load(path).name == "größe" * 100
