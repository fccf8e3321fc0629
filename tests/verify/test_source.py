"""The source lines that a finding shows."""

import pytest

from refkit.verify.source import lines_around


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text("".join(f"line {n}  \n" for n in range(1, 8)))
    return str(path)


@pytest.mark.parametrize(
    ("line", "around", "shown", "start"),
    [
        (4, 2, ("line 2", "line 3", "line 4", "line 5", "line 6"), 2),
        (1, 2, ("line 1", "line 2", "line 3"), 1),
        (7, 1, ("line 6", "line 7"), 6),
        (5, 0, ("line 5",), 5),
        (0, 2, (), 0),
        (8, 2, (), 0),
    ],
)
def test_a_line_is_shown_with_its_neighbours(file, line, around, shown, start):
    assert lines_around(file, line, around) == (shown, start)


def test_a_file_that_cannot_be_read_shows_nothing():
    assert lines_around("/no/such/file.py", 3) == ((), 0)
