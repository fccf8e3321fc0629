import pytest

from refkit.cuda_kernels.launch import add_into, read, update, write
from refkit.cuda_kernels.launch.dims import parse


@pytest.mark.parametrize(
    ("text", "sizes", "size"),
    [
        ("T", {"T": 7}, 7),
        (3, {}, 3),
        ("2*I", {"I": 5}, 10),
        ("I*2", {"I": 5}, 10),
        ("V+1", {"V": 5}, 6),
        ("S-1", {"S": 5}, 4),
        ("K//128", {"K": 300}, 2),
        ("-(-K//128)", {"K": 300}, 3),
        ("H*D", {"H": 3, "D": 4}, 12),
        ("2*(H+1)*D", {"H": 3, "D": 4}, 32),
    ],
)
def test_the_size_of_a_dim(text, sizes, size):
    assert parse(text).size(sizes) == size


def test_a_name_alone_or_times_a_number_can_be_found_from_a_size():
    assert (parse("I").name, parse("I").factor) == ("I", 1)
    assert (parse("2*I").name, parse("2*I").factor) == ("I", 2)
    assert parse("I+1").name == parse("H*D").name == parse("0*I").name == ""


@pytest.mark.parametrize("text", ["", "T K", "T/2", "T**2", "len(T)", "2.5*T", "True", "T.x", "T[0]"])
def test_other_expressions_are_refused_where_they_are_written(text):
    with pytest.raises(ValueError, match="neither a name, an integer, nor"):
        read(text)


@pytest.mark.parametrize("dim", [True, 2.0, None])
def test_other_types_are_refused(dim):
    with pytest.raises(TypeError, match="neither a name nor an integer"):
        read(dim)


def test_what_each_declaration_says():
    said = [(a.access, a.written, a.dtypes) for a in (read("T"), write("T"), add_into("T"), update("T"))]
    floats = ("float32", "bfloat16", "float16")
    assert said == [
        ("read", False, floats),
        ("write", True, floats),
        ("add_into", True, ("float32",)),
        ("update", True, floats),
    ]
    assert read("T", "2*I").shape == "(T, 2*I)"
    assert read("T").shape == "(T,)"
