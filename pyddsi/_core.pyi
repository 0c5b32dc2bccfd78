"""The compiled half, as the type checker sees it: cffi's two objects, and the hot calls that module.c adds."""

from typing import Any

ffi: Any
lib: Any

def columns(packets: list[Any], reading: bytes, /) -> tuple[Any, ...]: ...
