"""
What takes part in peers.py: each contender is one small class, and all have the same shape.

    kind.load()                        import the library; what is not here raises
    peer = kind(place, ports, size, first=...)
    peer.open()                        the session, if there is such a thing
    out = peer.sender("go")            out.put(payload), and where the library has them
                                       out.put_many(payloads), out.loan(size): send a sample without writing to it
    into = peer.receiver("go")         into.receive(limit): wait for samples and return some; into.view(sample): its bytes
    peer.close()

`place` is a folder for sockets, and its name is in the name of everything that others on this machine could see; `ports`
has a free port for each channel; `size` is that of the samples; `first` is true in one process of a run: where one side
has to listen and the other to connect, that one listens.

Each library is used through its fastest idiomatic calls, waits when a queue is full, and has queues of a sensible length
for the size. `receive` may return early, and must at a marker, so that nothing waits behind it.

The rivals are in _peers_rivals.py; here are pyddsi and a bare Unix socket for orientation. Both files import next to
nothing when they are read, because a process's start and memory are measured: what a contender needs, its load() imports.
"""

from __future__ import annotations

import time

from _peers_child import MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

CHANNELS = ("go", "back")
QUEUE_BYTES = 16 * 1024 * 1024  # of samples that may wait
QUEUE_MAX = 1024
QUEUE_MIN = 16
WAIT_S = 0.5  # a receiver looks up as often as this
CONNECT_S = 0.001
WINDOW_BYTES = 256 * 1024  # of pyddsi, if nothing is said


class Sender:
    """A publisher's calls."""

    __slots__ = ("loan", "put", "put_many")

    def __init__(
        self,
        put: Callable[[bytes], Any],
        put_many: Callable[[list[bytes]], Any] | None = None,
        loan: Callable[[int], Any] | None = None,
    ) -> None:
        self.put = put
        self.put_many = put_many
        self.loan = loan


class Receiver:
    """A subscriber's calls."""

    __slots__ = ("receive", "view")

    def __init__(
        self, receive: Callable[[int], list[Any]], view: Callable[[Any], bytes | memoryview]
    ) -> None:
        self.receive = receive
        self.view = view


class Contender:
    """What all have in common."""

    name: ClassVar[str]
    package: ClassVar[str] = ""  # whose version is shown
    ours: ClassVar[bool] = False
    rival: ClassVar[bool] = True  # false: for orientation
    spins: ClassVar[bool] = False  # waits by asking again and again
    batches: ClassVar[bool] = False
    loans: ClassVar[bool] = False
    quick: ClassVar[bool] = False  # takes part in --quick
    library: ClassVar[Any] = None  # what load() has imported

    def __init__(self, place: str, ports: list[int], size: int, *, first: bool) -> None:
        self.place = place
        self.tag = place.rsplit("/", 1)[-1]
        self.ports = dict(zip(CHANNELS, ports, strict=True))
        self.size = size
        self.first = first
        self.queue = max(QUEUE_MIN, min(QUEUE_MAX, QUEUE_BYTES // size))

    @classmethod
    def load(cls) -> None:
        """Import what is needed."""

    @classmethod
    def complete(cls) -> None:
        """Load what the import has put off until it is used."""

    def open(self) -> None:
        """Open the session."""

    def sender(self, channel: str) -> Sender:
        """Open a publisher."""
        raise NotImplementedError

    def receiver(self, channel: str) -> Receiver:
        """Open a subscriber."""
        raise NotImplementedError

    def close(self) -> None:
        """Close everything."""


# ---- pyddsi -------------------------------------------------------------------------------------


class Pyddsi(Contender):
    """pyddsi as it comes: it finds its peers, and takes shared memory where they are on the same machine."""

    name = "pyddsi"
    package = "pyddsi"
    ours = True
    batches = True
    loans = True
    quick = True
    way: ClassVar[str] = "multicast"

    def settings(self) -> dict[str, Any]:
        """What differs from the defaults."""
        return {}

    @classmethod
    def load(cls) -> None:
        """Import it."""
        cls.library = __import__("pyddsi")

    @classmethod
    def complete(cls) -> None:
        """Name what loads the part with sessions."""
        if not hasattr(cls.library, "open"):
            raise ImportError("this pyddsi has no sessions")

    def open(self) -> None:
        """One session."""
        self.session = self.library.open(**self.settings())

    def sender(self, channel: str) -> Sender:
        """A reliable publisher."""
        publisher = self.session.publisher(
            f"bench/{self.tag}/{channel}", reliable=True, way=self.way
        )
        lend = publisher.loan

        def loan(size: int) -> None:
            with lend(size):
                pass

        return Sender(publisher.put, publisher.put_many, loan)

    def receiver(self, channel: str) -> Receiver:
        """A subscriber that makes the publisher wait."""
        self.subscriber = self.session.subscriber(
            f"bench/{self.tag}/{channel}", depth=QUEUE_MAX, on_full="wait"
        )
        return Receiver(self.taker(), lambda sample: sample.data)

    def taker(self) -> Callable[[int], list[Any]]:
        """A call that waits and takes all that are there."""
        take: Callable[[int], list[Any]] = self.subscriber.recv_many
        return take

    def close(self) -> None:
        """Close the session."""
        self.session.close()


class PyddsiSpin(Pyddsi):
    """The same, but the subscriber asks again and again."""

    name = "pyddsi-spin"
    spins = True
    quick = False

    def taker(self) -> Callable[[int], list[Any]]:
        """A call that asks until something is there."""
        poll = self.subscriber.poll

        def receive(limit: int) -> list[Any]:
            while (one := poll()) is None:
                pass
            batch = [one]
            while len(batch) < limit and (more := poll()) is not None:
                batch.append(more)
            return batch

        return receive


class PyddsiUdp(Pyddsi):
    """The same without shared memory: datagrams alone, to each subscriber its own, as DDS does it where there is one."""

    name = "pyddsi-udp"
    quick = False
    way = "each"

    def settings(self) -> dict[str, Any]:
        """No memory is shared, and the window has room for some of the largest samples."""
        return {"shared_memory": False, "window_bytes": max(WINDOW_BYTES, 4 * self.size)}


# ---- a bare socket ------------------------------------------------------------------------------


class PyUds(Contender):
    """A Unix stream socket in plain Python: four bytes of length, then the sample."""

    name = "py-uds"
    rival = False
    quick = True
    struct: ClassVar[Any] = None

    @classmethod
    def load(cls) -> None:
        """Import what belongs to Python."""
        cls.library = __import__("socket")
        cls.struct = __import__("struct")

    def open(self) -> None:
        """Nothing yet: each channel is a socket of its own."""
        self.sockets: list[Any] = []

    def sender(self, channel: str) -> Sender:
        """Listen; put sends to all that have come, so the others get what is sent later."""
        listener = self.library.socket(self.library.AF_UNIX)
        listener.bind(f"{self.place}/{channel}")
        listener.listen()
        listener.settimeout(0)
        self.sockets.append(listener)
        there: list[Any] = []
        pack = self.struct.Struct("<I").pack

        def put(payload: bytes) -> None:
            if len(payload) == MARK:  # only then may somebody be new
                try:
                    while True:
                        there.append(listener.accept()[0])
                        there[-1].settimeout(None)
                        self.sockets.append(there[-1])
                except BlockingIOError:
                    pass
            head = pack(len(payload))
            if len(payload) <= 65536:
                data = head + payload
                for one in there:
                    one.sendall(data)
            else:
                for one in there:
                    one.sendall(head)
                    one.sendall(payload)

        return Sender(put)

    def receiver(self, channel: str) -> Receiver:
        """Connect as soon as somebody listens."""
        stream = self.library.socket(self.library.AF_UNIX)
        while True:
            try:
                stream.connect(f"{self.place}/{channel}")
                break
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(CONNECT_S)
        self.sockets.append(stream)
        ready: list[bytes | memoryview] = []
        rest = b""

        def receive(limit: int) -> list[bytes | memoryview]:
            nonlocal ready, rest
            while not ready:
                rest = split(stream, rest, ready)
            batch, ready = ready[:limit], ready[limit:]
            return batch

        return Receiver(receive, lambda sample: sample)

    def close(self) -> None:
        """Close all."""
        for one in self.sockets:
            one.close()


def split(stream: Any, rest: bytes, ready: list[bytes | memoryview]) -> bytes:
    """Receive once, put the whole samples into `ready`, and return what is left."""
    data: bytes = stream.recv(262144)
    if rest:
        data = rest + data
    at, end = 0, len(data)
    while end - at >= 4:
        size = int.from_bytes(data[at : at + 4], "little")
        if end - at - 4 < size:
            if size <= 65536:
                break
            whole = bytearray(size)
            view = memoryview(whole)
            have = end - at - 4
            view[:have] = data[at + 4 :]
            while have < size:
                have += stream.recv_into(view[have:])
            ready.append(view)
            return b""
        ready.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return data[at:]


# ---- all of them --------------------------------------------------------------------------------


def contenders() -> dict[str, type[Contender]]:
    """All, by name, in the order of the tables."""
    from _peers_rivals import RIVALS  # noqa: PLC0415 - it needs what is above

    return {kind.name: kind for kind in (Pyddsi, PyddsiSpin, PyddsiUdp, *RIVALS, PyUds)}


def contender(name: str) -> type[Contender]:
    """The one of that name."""
    return contenders()[name]
