"""
The compiled half, as the type checker sees it: cffi's two objects, and what module.c adds.

tests/api/test_session_stub.py holds this file against the module.
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self, TypeAlias, final

from typing_extensions import Buffer

ffi: Any
lib: Any

class _Array(Protocol):
    """An array of numpy, whose stubs call it a buffer only since Python 3.12."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

_Data: TypeAlias = Buffer | _Array

def scan_batch(address: int, /) -> object | None: ...
def scan_lines(address: int, start: str, /) -> str: ...
def scan_rows(address: int, /) -> list[tuple[Any, ...]]: ...
def scan_schema(address: int, /) -> object: ...
def columns(packets: list[Any], reading: bytes, /) -> tuple[Any, ...]: ...

@final
class Keeper:
    """Owns a session: what needs its memory holds this."""

    def __new__(
        cls,
        address: int,
        names: dict[int, str],
        views_max: int,
        view_bytes_max: int,
        view_size: int,
        /,
    ) -> Self: ...
    def counts(self) -> tuple[int, int, int, int]: ...

@final
class Sample(Buffer):
    """
    A sample as its reader gets it: a read-only buffer, so `bytes(sample)` and `memoryview(sample)` work, and it is equal to
    bytes, and to other samples, that have the same content.

    Small samples are copies of their own; of larger ones the session keeps the bytes where they came in, until the last
    view of them is gone.
    """

    @property
    def data(self) -> memoryview:
        """Its bytes, where they are; every view keeps the sample's memory."""
    @property
    def resource(self) -> str | int:
        """Its name, or its number where no name is known."""
    @property
    def number(self) -> int:
        """In its conduit, counted on without wrapping."""
    @property
    def time_ns(self) -> int:
        """When its last byte came in, in nanoseconds since 1970."""
    @property
    def source(self) -> str | None:
        """The name of the session that sent it."""
    @property
    def conduit(self) -> int:
        """The sender's conduit."""
    @property
    def space(self) -> int:
        """The resource space."""
    @property
    def reliable(self) -> bool:
        """Whether it would have been sent again."""
    @property
    def size(self) -> int:
        """How many bytes it has."""
    def release(self) -> None:
        """The data is not needed any more; views made of it before keep the memory further."""
    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce_ex__(self, protocol: object, /) -> NoReturn: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class Loan(Buffer):
    """Memory of a publisher for one sample; see Publisher.loan."""

    used: int
    """How many of its bytes are published; all, unless the block sets it."""

    @property
    def size(self) -> int:
        """How many bytes it has."""
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __enter__(self) -> memoryview: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

class Writer:
    """What a publisher does for every sample."""

    def put(self, data: _Data, /, *, timeout: float | None = 10.0, wait: bool = True) -> bool:
        """
        Publish a sample: bytes, or any other buffer.

        When the window is full this waits until it has room; TimeoutError if it has none after `timeout` seconds (None:
        for ever). With wait=False the answer is False then, and nothing has happened. If nobody subscribes, there is
        nothing to do, and that is well.
        """
    def put_many(
        self, samples: Iterable[_Data], /, *, timeout: float | None = 10.0, wait: bool = True
    ) -> int:
        """
        Publish a list of samples with one call, in few packets. Answers how many were accepted: all, or with wait=False
        as many as there was room for. An exception says so in `taken`.
        """
    def put_array(self, rows: _Data, /, *, timeout: float | None = 10.0, wait: bool = True) -> int:
        """Publish each row of an array as a sample; otherwise as put_many()."""
    def loan(self, size: int, /, *, timeout: float | None = 10.0) -> Loan:
        """
        A sample to be written in place, without a copy:

            with pub.loan(4096) as memory:
                memory[:] = ...

        It is published when the block ends, and dropped if the block raises. An array made of the memory should end with
        the block; while one is left, a copy is published instead.
        """
    def _attach(self, keeper: Keeper, handle: int, /) -> None: ...
    def _detach(self) -> None: ...

class Reader:
    """How samples come out of a subscriber."""

    @property
    def answers(self) -> int:
        """How many answers to pull() have come to their end."""
    def recv(self, timeout: float | None = None) -> Sample:
        """The next sample. Waits for it; TimeoutError after `timeout` seconds (None: for ever)."""
    def recv_many(self, max: int = 256, *, timeout: float | None = None) -> list[Sample]:
        """A list of the samples that are there, at most `max`. Waits for the first one as recv()."""
    def poll(self) -> Sample | None:
        """The next sample if one is there now, else None."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Sample: ...
    def _array(
        self, item: int, /, max: int = 65536, *, timeout: float | None = None
    ) -> tuple[bytearray | None, int, int]: ...
    def _take(self, max: int, /) -> list[Sample] | None: ...
    def _attach(self, keeper: Keeper, handle: int, ahead: int, /) -> None: ...
    def _detach(self) -> None: ...
