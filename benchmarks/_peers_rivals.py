"""
The rivals in peers.py, each through its own fastest calls; _peers_contenders.py says what such a class has to do.

The file is long because it is a list: no class here knows of the others, and each is read alone, beside its library.
"""

from __future__ import annotations

from _peers_child import MARK
from _peers_contenders import WAIT_S, Contender, Receiver, Sender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

NO_COPY_MIN = 65536  # pyzmq copies below this anyway


# ---- pyzmq --------------------------------------------------------------------------------------


class Zmq(Contender):
    """PUB and SUB over TCP; a full queue makes the publisher wait instead of losing samples."""

    name = "zmq"
    package = "pyzmq"
    partial: ClassVar[Any] = None

    @classmethod
    def load(cls) -> None:
        """Import it."""
        cls.library = __import__("zmq")
        cls.partial = __import__("functools").partial

    def address(self, channel: str) -> str:
        """Where the publisher binds."""
        return f"tcp://127.0.0.1:{self.ports[channel]}"

    def open(self) -> None:
        """A context with its one thread."""
        self.context = self.library.Context()

    def sender(self, channel: str) -> Sender:
        """A PUB socket."""
        socket = self.context.socket(self.library.PUB)
        socket.setsockopt(self.library.XPUB_NODROP, 1)
        socket.setsockopt(self.library.SNDHWM, self.queue)
        socket.setsockopt(self.library.LINGER, 0)
        socket.bind(self.address(channel))
        if self.size < NO_COPY_MIN:
            return Sender(socket.send)
        return Sender(self.partial(socket.send, copy=False))

    def receiver(self, channel: str) -> Receiver:
        """A SUB socket that takes everything."""
        socket = self.context.socket(self.library.SUB)
        socket.setsockopt(self.library.RCVHWM, self.queue)
        socket.setsockopt(self.library.LINGER, 0)
        socket.setsockopt(self.library.RECONNECT_IVL, 5)
        socket.setsockopt(self.library.SUBSCRIBE, b"")
        socket.connect(self.address(channel))
        view: Callable[[Any], bytes | memoryview] = bytes_of
        receive_one = socket.recv
        if self.size >= NO_COPY_MIN:
            receive_one = self.partial(socket.recv, copy=False)
            view = buffer_of

        def receive(limit: int) -> list[Any]:
            batch = []
            for _ in range(limit):
                one = receive_one()
                batch.append(one)
                if len(one) == MARK:
                    break
            return batch

        return Receiver(receive, view)

    def close(self) -> None:
        """Close the sockets and the context."""
        self.context.destroy(linger=0)


def bytes_of(sample: bytes) -> bytes:
    """A sample that is bytes already."""
    return sample


def buffer_of(frame: Any) -> memoryview:
    """What is in a frame."""
    return memoryview(frame.buffer)


class ZmqIpc(Zmq):
    """The same over a Unix socket."""

    name = "zmq-ipc"
    quick = True

    def address(self, channel: str) -> str:
        """Where the publisher binds."""
        return f"ipc://{self.place}/{channel}"


# ---- Zenoh --------------------------------------------------------------------------------------


class Zenoh(Contender):
    """Two peers that find each other; they use TCP and, by themselves, shared memory for large samples."""

    name = "zenoh"
    package = "eclipse-zenoh"
    quick = True

    @classmethod
    def load(cls) -> None:
        """Import it."""
        cls.library = __import__("zenoh")

    def settings(self) -> dict[str, str]:
        """What differs from the defaults."""
        return {}

    def open(self) -> None:
        """One session."""
        config = self.library.Config()
        for key, value in self.settings().items():
            config.insert_json5(key, value)
        self.session = self.library.open(config)

    def sender(self, channel: str) -> Sender:
        """A publisher that waits."""
        publisher = self.session.declare_publisher(
            f"bench/{self.tag}/{channel}",
            congestion_control=self.library.CongestionControl.BLOCK,
            reliability=self.library.Reliability.RELIABLE,
        )
        return Sender(publisher.put, None, self.lender(publisher.put))

    def lender(self, _put: Callable[[Any], None]) -> Callable[[int], None] | None:
        """Send a sample without writing it, where that can be done."""
        return None

    def receiver(self, channel: str) -> Receiver:
        """A subscriber with a first-in-first-out channel."""
        subscriber = self.session.declare_subscriber(
            f"bench/{self.tag}/{channel}", self.library.handlers.FifoChannel(self.queue)
        )
        wait, more = subscriber.recv, subscriber.try_recv

        def receive(limit: int) -> list[Any]:
            batch = [wait()]
            for _ in range(limit - 1):
                one = more()
                if one is None:
                    break
                batch.append(one)
            return batch

        return Receiver(receive, lambda sample: sample.payload.to_bytes())

    def close(self) -> None:
        """Close the session."""
        self.session.close()


class ZenohTcp(Zenoh):
    """One listens on TCP and the other connects; nothing is found, and no memory shared."""

    name = "zenoh-tcp"
    quick = False

    def settings(self) -> dict[str, str]:
        """One end of a TCP connection."""
        end = f'["tcp/127.0.0.1:{self.ports["go"]}"]'
        return {
            "mode": '"peer"',
            "scouting/multicast/enabled": "false",
            "transport/shared_memory/enabled": "false",
            "listen/endpoints": end if self.first else "[]",
            "connect/endpoints": "[]" if self.first else end,
            "connect/retry": "{period_init_ms: 5, period_max_ms: 5}",
            "connect/timeout_ms": "-1",
        }


class ZenohShm(Zenoh):
    """Explicit shared memory: each sample is allocated there and handed over."""

    name = "zenoh-shm"
    quick = False
    loans = True
    shm: ClassVar[Any] = None

    @classmethod
    def load(cls) -> None:
        """Import both parts."""
        super().load()
        cls.shm = __import__("zenoh.shm").shm

    def lender(self, put: Callable[[Any], None]) -> Callable[[int], None] | None:
        """Memory from a provider of its own."""
        provider = self.shm.ShmProvider.default_backend(max(self.queue * self.size, 1 << 20))
        policy = self.shm.BlockOn(self.shm.GarbageCollect())

        def loan(size: int) -> None:
            put(provider.alloc(size, policy))

        return loan

    def sender(self, channel: str) -> Sender:
        """Samples are written into what was allocated."""
        plain = super().sender(channel)
        provider = self.shm.ShmProvider.default_backend(max(self.queue * self.size, 1 << 20))
        policy = self.shm.BlockOn(self.shm.GarbageCollect())
        send = plain.put

        def put(payload: bytes) -> None:
            memory: Any = provider.alloc(len(payload), policy)
            memory[:] = payload
            send(memory)

        return Sender(put, None, plain.loan)


# ---- iceoryx2 -----------------------------------------------------------------------------------


class Iceoryx2(Contender):
    """Shared memory; the subscriber asks again and again."""

    name = "iceoryx2"
    package = "iceoryx2"
    spins = True
    loans = True
    ctypes: ClassVar[Any] = None

    @classmethod
    def load(cls) -> None:
        """Import it."""
        cls.library = __import__("iceoryx2")
        cls.ctypes = __import__("ctypes")

    def open(self) -> None:
        """One node."""
        lib = self.library
        lib.set_log_level(lib.LogLevel.Error)
        self.node = lib.NodeBuilder.new().create(lib.ServiceType.Ipc)
        self.keep: list[Any] = []

    def service(self, channel: str) -> Any:
        """The service of a channel, the same for both sides."""
        lib = self.library
        name = lib.ServiceName.new(f"bench/{self.tag}/{channel}")
        return (
            self.node.service_builder(name)
            .publish_subscribe(lib.Slice[self.ctypes.c_uint8])
            .enable_safe_overflow(value=False)
            .subscriber_max_buffer_size(self.queue)
            .subscriber_max_borrowed_samples(self.queue)
            .max_subscribers(8)
            .open_or_create()
        )

    def sender(self, channel: str) -> Sender:
        """A publisher that tries until each subscriber has room."""
        lib = self.library
        publisher = (
            self.service(channel)
            .publisher_builder()
            .initial_max_slice_len(max(self.size, MARK))
            .backpressure_strategy(lib.BackpressureStrategy.RetryUntilDelivered)
            .create()
        )
        wake = self.waker(channel)
        borrow, copy = publisher.loan_slice_uninit, self.ctypes.memmove

        def put(payload: bytes) -> None:
            size = len(payload)
            sample = borrow(size)
            copy(sample.payload_ptr, payload, size)
            sample.assume_init().send()
            if wake is not None:
                wake()

        def loan(size: int) -> None:
            borrow(size).assume_init().send()
            if wake is not None:
                wake()

        self.keep.append(publisher)
        return Sender(put, None, loan)

    def receiver(self, channel: str) -> Receiver:
        """A subscriber."""
        subscriber = self.service(channel).subscriber_builder().buffer_size(self.queue).create()
        self.keep.append(subscriber)
        return Receiver(self.taker(channel, subscriber.receive), seen)

    def waker(self, _channel: str) -> Callable[[], None] | None:
        """What tells the subscriber that there is something: nothing."""
        return None

    def taker(self, _channel: str, more: Callable[[], Any]) -> Callable[[int], list[Any]]:
        """Ask until something is there."""

        def receive(limit: int) -> list[Any]:
            while (one := more()) is None:
                pass
            return rest_of(one, more, limit)

        return receive

    def close(self) -> None:
        """Give up all ports, which gives their memory back."""
        for port in self.keep:
            port.delete()
        self.keep.clear()
        del self.node


def rest_of(one: Any, more: Callable[[], Any], limit: int) -> list[Any]:
    """A sample and those that are there behind it."""
    batch = [one]
    for _ in range(limit - 1):
        one = more()
        if one is None:
            break
        batch.append(one)
    return batch


def seen(sample: Any) -> memoryview:
    """A sample's bytes, where they lie."""
    view: memoryview = sample.payload().as_memory_view()
    return view


class Iceoryx2Event(Iceoryx2):
    """The same with an event for each sample, so that the subscriber sleeps while there is none."""

    name = "iceoryx2-ev"
    spins = False
    quick = True

    def event(self, channel: str) -> Any:
        """The event service of a channel."""
        name = self.library.ServiceName.new(f"bench/{self.tag}/{channel}/event")
        return self.node.service_builder(name).event().open_or_create()

    def waker(self, channel: str) -> Callable[[], None] | None:
        """Notify the listeners."""
        notifier = self.event(channel).notifier_builder().create()
        self.keep.append(notifier)
        wake: Callable[[], None] = notifier.notify
        return wake

    def taker(self, channel: str, more: Callable[[], Any]) -> Callable[[int], list[Any]]:
        """Take what is there, else sleep."""
        listener = self.event(channel).listener_builder().create()
        self.keep.append(listener)
        wait, longest = listener.timed_wait, self.library.Duration.from_millis(int(WAIT_S * 1e3))

        def receive(limit: int) -> list[Any]:
            while (one := more()) is None:
                wait(longest)
            return rest_of(one, more, limit)

        return receive


# ---- Cyclone DDS --------------------------------------------------------------------------------


class Cyclone(Contender):
    """
    A topic of byte arrays, reliable and keeping all. An array is the one type whose bytes the library does not take
    apart one by one; a length in front of it tells the markers, which are arrays of the same size.
    """

    name = "cyclonedds"
    package = "cyclonedds"
    util: ClassVar[Any] = None
    dataclass: ClassVar[Any] = None

    @classmethod
    def load(cls) -> None:
        """Import the parts."""
        for part in ("core", "domain", "pub", "sub", "topic", "idl", "idl.types", "_clayer"):
            cls.library = __import__(f"cyclonedds.{part}")
        cls.util = __import__("cyclonedds.util").util
        cls.dataclass = staticmethod(__import__("dataclasses").dataclass)

    def open(self) -> None:
        """One participant, and the type of the samples."""
        idl = self.library.idl
        # The library reads the annotations itself, so they have to be types and not names of types.
        fields = {"length": idl.types.uint32, "data": idl.types.array[idl.types.uint8, self.size]}
        body = {"__annotations__": fields, "__module__": __name__}
        blob = type("Blob", (idl.IdlStruct,), body, typename=f"pyddsi_bench.Blob{self.size}")
        self.type = self.dataclass(blob)
        self.participant = self.library.domain.DomainParticipant(0)
        policy, duration = self.library.core.Policy, self.util.duration
        self.qos = self.library.core.Qos(
            policy.Reliability.Reliable(duration(seconds=60)),
            policy.History.KeepAll,
            policy.ResourceLimits(self.queue, -1, -1),
        )
        self.keep: list[Any] = []  # who is dropped is deleted

    def topic(self, channel: str) -> Any:
        """The topic of a channel."""
        return self.library.topic.Topic(self.participant, f"bench_{self.tag}_{channel}", self.type)

    def sender(self, channel: str) -> Sender:
        """A writer."""
        writer = self.library.pub.DataWriter(self.participant, self.topic(channel), qos=self.qos)
        self.keep.append(writer)
        return Sender(self.putter(writer))

    def putter(self, writer: Any) -> Callable[[bytes], Any]:
        """Make a sample and write it."""
        kind, write, size = self.type, writer.write, self.size

        def put(payload: bytes) -> None:
            if len(payload) == size:
                write(kind(size, payload))
            else:
                write(kind(len(payload), payload[:size].ljust(size, b"\0")))

        return put

    def receiver(self, channel: str) -> Receiver:
        """A reader with a condition to wait for."""
        core = self.library.core
        reader = self.library.sub.DataReader(self.participant, self.topic(channel), qos=self.qos)
        condition = core.ReadCondition(
            reader, core.ViewState.Any | core.InstanceState.Any | core.SampleState.Any
        )
        waitset = core.WaitSet(self.participant)
        waitset.attach(condition)
        self.keep += [reader, condition, waitset]
        take, wait, longest = self.taker(reader), waitset.wait, int(WAIT_S * 1e9)

        def receive(limit: int) -> list[Any]:
            while not (batch := take(limit)):
                wait(longest)
            return batch

        return Receiver(receive, self.view)

    def taker(self, reader: Any) -> Callable[[int], list[Any]]:
        """What takes up to so many samples, and does not wait."""
        take: Callable[[int], list[Any]] = reader.take
        return take

    @staticmethod
    def view(sample: Any) -> bytes | memoryview:
        """A sample's bytes."""
        data: bytes = sample.data
        return data if sample.length != MARK else data[:8] + bytes(8)

    def close(self) -> None:
        """Drop all, the participant last."""
        while self.keep:
            self.keep.pop()
        self.participant = None


class CycloneRaw(Cyclone):
    """The calls below: encoded samples in and out, without the Python type layer."""

    name = "cyclonedds-raw"
    quick = True

    def putter(self, writer: Any) -> Callable[[bytes], Any]:
        """Write what is encoded already: each payload is encoded once."""
        write, handle, size = self.library._clayer.ddspy_write, writer._ref, self.size  # noqa: SLF001
        ready: dict[bytes, bytes] = {}

        def put(payload: bytes) -> None:
            data = ready.get(payload)
            if data is None:
                data = ready[payload] = encoded(payload, size)
            if write(handle, data) < 0:
                raise TimeoutError("cyclonedds has not taken a sample within a minute")

        return put

    def taker(self, reader: Any) -> Callable[[int], list[Any]]:
        """Take what is encoded."""
        take, handle = self.library._clayer.ddspy_take, reader._ref  # noqa: SLF001
        core = self.library.core
        mask = core.SampleState.Any | core.ViewState.Any | core.InstanceState.Any

        def taken(limit: int) -> list[Any]:
            batch: list[Any] = take(handle, mask, limit)
            return batch

        return taken

    @staticmethod
    def view(sample: Any) -> bytes | memoryview:
        """The bytes behind the four of the encoding and the four of the length."""
        data: bytes = sample[0]
        length = int.from_bytes(data[4:8], "little")
        return memoryview(data)[8 : 8 + length] if length != MARK else data[8:16] + bytes(8)


def encoded(payload: bytes, size: int) -> bytes:
    """A sample as it is on the wire: little-endian XCDR1, the length, the array, and what fills up to four."""
    data = b"\x00\x01\x00\x00" + len(payload).to_bytes(4, "little")
    data += payload[:size].ljust(size, b"\0")
    return data.ljust((len(data) + 3) & ~3, b"\0")


RIVALS = (Zmq, ZmqIpc, Zenoh, ZenohTcp, ZenohShm, Iceoryx2, Iceoryx2Event, Cyclone, CycloneRaw)
