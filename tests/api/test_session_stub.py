"""pyddsi/_core.pyi says what the compiled module is: nothing more, nothing less."""

import ast
import inspect
from pathlib import Path

import pytest

from pyddsi import _core

STUB = ast.parse((Path(_core.__file__).parent / "_core.pyi").read_text())
CLASSES = {
    node.name: node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"
}
OBJECT = set(dir(object)) | {"__doc__", "__module__"}
BUFFER = {"__buffer__", "__release_buffer__"}  # Python shows these since 3.12


def members(node: ast.ClassDef) -> set[str]:
    """What a class of the stub has."""
    names = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
    return names | {one.target.id for one in node.body if isinstance(one, ast.AnnAssign)}  # type: ignore[union-attr]


def test_module() -> None:
    """Every function and class of the module is in the stub, and the other way round."""
    said = {node.name for node in STUB.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    said |= {node.target.id for node in STUB.body if isinstance(node, ast.AnnAssign)}  # type: ignore[union-attr]
    said = {name for name in said if name[0] != "_"}
    assert said == {name for name in dir(_core) if not name.startswith("__")}


@pytest.mark.parametrize("name", CLASSES)
def test_class(name: str) -> None:
    """Every member of a class is in the stub, and the other way round."""
    found = set(dir(getattr(_core, name))) - OBJECT - BUFFER
    assert members(CLASSES[name]) - OBJECT - BUFFER == found


@pytest.mark.parametrize("name", CLASSES)
def test_arguments(name: str) -> None:
    """Methods have the arguments and the defaults that the stub says."""
    for node in CLASSES[name].body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("__"):
            continue
        member = getattr(getattr(_core, name), node.name)
        if not callable(member):
            assert any(ast.unparse(one) == "property" for one in node.decorator_list)
            continue
        arguments = node.args
        plain = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        said = plain + [one.arg for one in arguments.kwonlyargs]
        defaults = [
            ast.literal_eval(one) for one in (*arguments.defaults, *arguments.kw_defaults) if one
        ]
        signature = inspect.signature(member).parameters.values()
        assert [one.name for one in signature] == said, node.name
        assert [one.default for one in signature if one.default is not one.empty] == defaults
