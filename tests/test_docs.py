"""The documentation's Python snippets run, and print what the page says.

In README.md and docs/*.md, a block marked `python` is run; the blocks of a page share their names. One whose first line
is a comment with a file name is run as that file, by itself. A block marked `text` right after it (words between them
do not matter, another block does) is what it prints, where `...` stands for anything.
"""

import contextlib
import io
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if path.exists()]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    """A block of Python, the line of the page on which it begins, and what it is said to print."""

    code: str
    line: int
    output: str | None

    @property
    def file(self) -> str | None:
        """The file name in the first line, if it is one."""
        match = re.match(r"# (\w+\.py)\n", self.code)
        return match.group(1) if match else None


def snippets(text: str) -> list[Snippet]:
    """The Python blocks of a page."""
    blocks = [
        (match.group(1), match.group(2), text[: match.start()].count("\n") + 2) for match in _FENCE.finditer(text)
    ]
    found = []
    for index, (language, code, line) in enumerate(blocks):
        if language == "python":
            following = blocks[index + 1] if index + 1 < len(blocks) else ("", "", 0)
            found.append(Snippet(code, line, following[1] if following[0] == "text" else None))
    return found


def matches(expected: str, printed: str) -> bool:
    """Whether a text is the expected one, in which `...` stands for anything."""
    pattern = ".*".join(map(re.escape, expected.strip().split("...")))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def printed_by(snippet: Snippet, page: Path, names: dict, folder: Path) -> str:
    """Runs a snippet and returns what it prints."""
    if snippet.file:
        program = folder / snippet.file
        program.write_text(snippet.code)
        done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300, cwd=ROOT)
        assert done.returncode == 0, f"{page.name}:{snippet.line}: {done.stderr}"
        return done.stdout
    out = io.StringIO()
    code = compile("\n" * (snippet.line - 1) + snippet.code, str(page), "exec")  # errors name the page's own lines
    with contextlib.redirect_stdout(out):
        exec(code, names)
    return out.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_snippets_of_a_page_run_and_print_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    names: dict = {"__name__": page.stem}
    for snippet in snippets(page.read_text()):
        printed = printed_by(snippet, page, names, tmp_path)
        if snippet.output is not None:
            assert matches(snippet.output, printed), f"{page.name}:{snippet.line} prints:\n{printed}"


def test_the_mechanism_itself(tmp_path):
    page = "Words.\n\n```python\nx = 3\nprint(x)\n```\nprints\n```text\n3\n```\n```sh\nls\n```\n"
    page += "```python\n# a.py\nprint(7)\n```\n"
    first, second = snippets(page)
    assert (first.code, first.line, first.output, first.file) == ("x = 3\nprint(x)\n", 4, "3\n", None)
    assert (second.output, second.file) == (None, "a.py")
    assert printed_by(first, tmp_path / "p.md", {}, tmp_path) == "3\n"
    assert printed_by(second, tmp_path / "p.md", {}, tmp_path) == "7\n"
    with pytest.raises(NameError):
        printed_by(Snippet("print(y)\n", 1, None), tmp_path / "p.md", {}, tmp_path)
    assert matches("a ... c\n", "a b c")
    assert not matches("a ... c", "a b d")
    assert not matches("a", "ab")
