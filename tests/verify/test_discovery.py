"""Targets: found by file or module; what is wrong with one is a single line that names it."""

import contextlib
import os
import re
import sys
import textwrap

import pytest

from refkit.verify import discovery
from refkit.verify.discovery import import_context, load_target, shipped
from refkit.verify.errors import SpecError, TargetError

HEAD = """\
from refkit.verify import Dim, In, KernelSpec, Out
R = Dim("R")
def copy(x, y):
    y[:] = x
def make(**changes):
    return KernelSpec(**{"launch": copy, "reference": lambda x: x, "args": {"x": In(R), "y": Out(R)}, **changes})
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a file below a fresh current folder and returns its path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(name, body, head=HEAD):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + textwrap.dedent(body))
        return path

    return write


def refused(target, error=TargetError):
    with pytest.raises(error) as caught:
        load_target(str(target))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_with_one_spec(write):
    path = write("kernels.py", "copy_spec = make()")
    specs = load_target(str(path))
    assert list(specs) == ["copy"]
    assert specs["copy"].target == str(path)
    assert specs["copy"].source == f"{path}:6"


def test_names_come_from_variables_without_the_suffix(write):
    write("kernels.py", "a_spec = make()\nb = make()\nc_spec = make(name='third')\nmany_specs = [make(), make()]")
    assert list(load_target("kernels.py")) == ["a", "b", "third", "many_0", "many_1"]
    assert list(load_target("kernels.py:b")) == ["b"]
    assert list(load_target("kernels.py:c_spec")) == ["third"]
    assert list(load_target("kernels.py:third")) == ["third"]


def test_a_variable_called_spec_takes_the_launchers_name(write):
    write("kernels.py", "spec = make()")
    assert list(load_target("kernels.py")) == list(load_target("kernels.py:spec")) == ["copy"]


def test_the_same_spec_twice_counts_once(write):
    write("kernels.py", "a_spec = make()\nalias = a_spec")
    assert list(load_target("kernels.py")) == ["a"]


def test_a_module_and_a_package(write):
    write("my_kernels_a.py", "copy_spec = make()")
    write("my_package_b/__init__.py", "", head="")
    write("my_package_b/inner.py", "inner_spec = make()")
    assert load_target("my_kernels_a")["copy"].target == "my_kernels_a"
    assert list(load_target("my_package_b.inner:inner")) == ["inner"]


def test_the_files_folder_is_on_the_path_during_import_only(write):
    write("folder/helper_of_c.py", "VALUE = 3", head="")
    write("folder/kernels.py", "from helper_of_c import VALUE\ncopy_spec = make()")
    before = list(sys.path)
    assert list(load_target("folder/kernels.py")) == ["copy"]
    assert sys.path == before


def test_a_users_file_shadows_nothing_and_is_not_main(write):
    path = write("numpy.py", "copy_spec = make()\nif __name__ == '__main__':\n    raise RuntimeError")
    assert list(load_target(str(path))) == ["copy"]
    import numpy

    assert numpy.__file__ != str(path)


def test_two_loads_see_two_versions_of_a_file(write):
    path = write("kernels.py", "a_spec = make()")
    load_target(str(path))
    write("kernels.py", "b_spec = make()")
    assert list(load_target(str(path))) == ["b"]


def test_missing_file_with_a_suggestion(write):
    write("scale_rows.py", "copy_spec = make()")
    assert refused("scale_row.py") == "scale_row.py: no such file; did you mean scale_rows.py?"
    assert refused("elsewhere/kernels.py") == "elsewhere/kernels.py: no such file"


def test_not_a_python_file(write, tmp_path):
    write("kernel.cu", "", head="")
    assert "kernel.cu is not a Python file" in refused("./kernel.cu")
    assert "is a folder; expected a Python file" in refused(str(tmp_path))


def test_no_spec(write):
    write("kernels.py", "")
    assert refused("kernels.py").startswith("kernels.py: no KernelSpec in it; expected a module variable")


def test_unknown_name_with_a_suggestion(write):
    write("kernels.py", "scale_spec = make()")
    assert refused("kernels.py:scal") == "kernels.py: no spec named 'scal'; did you mean 'scale'?"
    assert refused("kernels.py:zzz") == "kernels.py: no spec named 'zzz'; expected one of scale"


def test_unknown_module(write):
    assert refused("no_such_module_x") == "no_such_module_x: no module named 'no_such_module_x'"
    write("my_package_d/__init__.py", "", head="")
    assert "no module named 'my_package_d.nothing'" in refused("my_package_d.nothing")


@pytest.mark.parametrize("target", ["", ":name", "kernels.py:", "not a module!"])
def test_what_is_no_target(write, target):
    assert "is not a target; expected path/to/file.py or package.module" in refused(target)


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("import no_such_module_y", 7, "ModuleNotFoundError: No module named 'no_such_module_y'"),
        ("\n1 / 0", 8, "ZeroDivisionError: division by zero"),
        ("def broken(:", 7, "invalid syntax"),
        ("import sys\nsys.exit(3)", 8, "SystemExit: 3"),
        ("raise ValueError('two\\nlines')", 7, "ValueError: two lines"),
        ("import numpy as np\nnp.linalg.inv(np.zeros((2, 2)))", 8, "LinAlgError: Singular matrix"),
    ],
)
@pytest.mark.parametrize("as_module", [False, True])
def test_what_the_users_code_raises_has_its_line(write, request, body, line, message, as_module):
    name = "failing_" + re.sub(r"\W", "_", request.node.name)
    path = write(f"{name}.py", body)
    assert refused(name if as_module else path) == f"{path}:{line}: {message}"
    assert not [module for module in sys.modules if name in module]


def test_a_wrong_spec_stays_a_spec_error(write):
    path = write("kernels.py", "bad_spec = make(nonfinite=3)")
    assert refused(path, SpecError) == f"{path}:6: nonfinite is 3; expected True or False"


def test_two_specs_of_one_name(write):
    write("kernels.py", "a_spec = make()\na = make()")
    assert "two specs are named 'a'" in refused("kernels.py")


def test_the_simulator_is_refused(write, monkeypatch):
    write("kernels.py", "a_spec = make()")
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    assert refused("kernels.py").startswith("NUMBA_ENABLE_CUDASIM is set; unset it")
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0")
    assert list(load_target("kernels.py")) == ["a"]


def test_emulation_is_on_only_without_a_gpu(monkeypatch):
    entered = []

    @contextlib.contextmanager
    def emulation():
        entered.append(True)
        yield

    monkeypatch.setattr(discovery, "_emulation", emulation)
    monkeypatch.setattr(discovery, "_gpu_available", lambda: True)
    with import_context():
        assert entered == []
    monkeypatch.setattr(discovery, "_gpu_available", lambda: False)
    with import_context():
        assert entered == [True]


@pytest.mark.cpu
def test_eagerly_typed_kernels_import_without_a_gpu(write):
    if discovery._gpu_available():
        pytest.skip("this machine has a GPU")
    write(
        "kernels.py", "from numba import cuda\n@cuda.jit('void(float32[:])')\ndef k(x):\n    x[0] = 1\na_spec = make()"
    )
    assert list(load_target("kernels.py")) == ["a"]


def test_shipped_specs_are_found_by_listing_the_folder():
    from refkit.verify import specs

    folder = os.path.dirname(specs.__file__)
    modules = {name.removesuffix(".py") for name in os.listdir(folder) if name.endswith(".py")} - {"__init__"}
    found = shipped()
    assert len(found) >= len(modules)
    assert {spec.source.rpartition(":")[0].rpartition("/")[2].removesuffix(".py") for spec in found.values()} == modules
    rungs_of_matmul = {"matmul_mma", "matmul_wgmma"}  # one operator, whose kernels stand in three files
    assert {spec.operator for spec in found.values()} == modules - rungs_of_matmul
    assert all(name == spec.name for name, spec in found.items())
