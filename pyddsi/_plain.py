"""
Dataclasses for those who ask, without the module that makes them.

`dataclasses` imports `inspect` and half a compiler with it, which takes longer than to open a session and send the first
sample. `plain` gives a class of annotated fields with defaults what `@dataclass(frozen=True, kw_only=True)` would give it:
keywords, `__post_init__`, `==`, hash, repr, and no change afterwards. To a type checker it is that decorator. When somebody
uses `dataclasses.fields`, `replace` or `asdict` on it, that module is there anyway, and makes the list of fields.
"""

from __future__ import annotations

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from typing import Any, NoReturn, TypeVar, dataclass_transform

    C = TypeVar("C")
else:

    def dataclass_transform(**_options: object) -> object:
        """A mark for type checkers."""
        return lambda function: function


__all__ = ["Generic", "plain"]


class Generic:
    """What is generic to a type checker is plain when it runs."""

    def __class_getitem__(cls, _parameters: object) -> type:
        return cls


class _Fields:
    """The attribute that makes a class a dataclass, made when it is first looked at."""

    def __get__(self, _one: object, cls: type) -> dict[str, Any]:
        import dataclasses  # noqa: PLC0415 - see the top

        rows = [(name, kind, getattr(cls, name)) for name, kind in cls.__annotations__.items()]
        twin = dataclasses.make_dataclass(cls.__name__, rows, frozen=True, kw_only=True)
        found: dict[str, Any] = vars(twin)["__dataclass_fields__"]
        type.__setattr__(cls, "__dataclass_fields__", found)
        return found


def _init(self: Any, *wrong: object, **values: Any) -> None:
    if wrong:
        raise TypeError(f"{type(self).__name__} takes keywords alone, not {wrong[0]!r}")
    for name in type(self).__annotations__:
        object.__setattr__(self, name, values.pop(name, getattr(type(self), name)))
    if values:
        raise TypeError(f"{type(self).__name__} has no field {next(iter(values))!r}")
    self.__post_init__()


def _fixed(self: Any, name: str, *_value: Any) -> NoReturn:
    raise AttributeError(f"{type(self).__name__} is frozen; make another one to change {name!r}")


def _parts(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in type(self).__annotations__)


def _equal(self: Any, other: object) -> Any:
    return _parts(self) == _parts(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_parts(self))


def _repr(self: Any) -> str:
    pairs = zip(type(self).__annotations__, _parts(self), strict=True)
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


_METHODS = {
    "__init__": _init,
    "__setattr__": _fixed,
    "__delattr__": _fixed,
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _repr,
    "__dataclass_fields__": _Fields(),
}


@dataclass_transform(frozen_default=True, kw_only_default=True)
def plain(cls: type[C]) -> type[C]:
    """Make a class a frozen dataclass with keywords."""
    for name, method in _METHODS.items():
        setattr(cls, name, method)
    return cls
