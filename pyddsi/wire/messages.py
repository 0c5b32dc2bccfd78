"""
The protocol's messages as classes. Made by tools/generate.py from csrc/wire/table.c; do not change it by hand.

A field that a flag announces is optional here: None means that it is absent and the flag clear. `undefined` holds
flags that mean nothing, so that a message that carries them can be written again as it was. The file is long because
the protocol has that many messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import ClassVar

from pyddsi.wire._record import Buffer, Declaration, Item, Message, SelectionId


class Role(IntFlag):
    """What a node is, or looks for."""

    BROKER = 1
    DURABILITY = 2
    PEER = 4
    CLIENT = 8


class Reason(IntEnum):
    """Why a session ended or was refused."""

    ORDINARY = 0
    AUTHENTICATION = 1
    PROTOCOL_VERSION = 2
    OUT_OF_RESOURCES = 3
    SEQUENCE_LENGTH = 4
    PARAMETER = 5
    DECLARATIONS = 6
    OTHER = 255


class Mode(IntEnum):
    """How samples come to a subscription."""

    PUSH = 1
    PULL = 2
    PERIODIC_PUSH = 3
    PERIODIC_PULL = 4
    PUSH_PULL = 5


class Status(IntEnum):
    """How a transaction went."""

    OK = 0
    NO_SPACE = 1
    CONFLICT = 2
    TOO_LARGE = 3
    TRY_AGAIN = 4
    INVALID = 5
    UNSUPPORTED = 6
    OTHER = 7


class PropertyId(IntEnum):
    """The properties with a meaning; odd ids are vendors'."""

    VENDOR = 0
    EXTENSIONS = 1
    CONDUITS = 2
    INCARNATION = 3
    SEQUENCE_BITS = 4
    RELIABILITY = 6
    DURABILITY = 8
    COMMIT_MODE = 10
    AUTHENTICATION = 12
    CLIENT_HASH = 14


class Property(Item):
    """
    PROPERTY: a setting.

    id: which; odd ones are vendors'
    value: its value
    """

    __slots__ = ("id", "value")
    __match_args__ = ("id", "value")
    KIND: ClassVar[int] = 0
    NAME: ClassVar[str] = "PROPERTY"
    FIELDS: ClassVar[tuple[str, ...]] = ("id", "value")

    def __init__(self, id: int, value: Buffer) -> None:
        self.id = id
        self.value = value


class Sample(Item):
    """
    SAMPLE: a sample of a batch.

    rid: the resource that it belongs to
    payload: the sample
    """

    __slots__ = ("rid", "payload")
    __match_args__ = ("payload",)
    KIND: ClassVar[int] = 0
    NAME: ClassVar[str] = "SAMPLE"
    FIELDS: ClassVar[tuple[str, ...]] = ("rid", "payload")

    def __init__(self, payload: Buffer, *, rid: int | None = None) -> None:
        self.rid = rid
        self.payload = payload


class Resource(Declaration):
    """
    RESOURCE: ties an id to a name.

    id: the resource
    uri: its name
    properties: properties
    """

    __slots__ = ("id", "uri", "properties")
    __match_args__ = ("id", "uri")
    KIND: ClassVar[int] = 1
    NAME: ClassVar[str] = "RESOURCE"
    FIELDS: ClassVar[tuple[str, ...]] = ("id", "uri", "properties", "undefined")

    def __init__(
        self, id: int, uri: str, *, properties: Sequence[Property] | None = None, undefined: int = 0
    ) -> None:
        self.id = id
        self.uri = uri
        self.properties = tuple(properties) if properties is not None else None
        self.undefined = undefined


class Publication(Declaration):
    """
    PUBLICATION: the sender publishes.

    id: the resource
    properties: properties
    """

    __slots__ = ("id", "properties")
    __match_args__ = ("id",)
    KIND: ClassVar[int] = 2
    NAME: ClassVar[str] = "PUBLICATION"
    FIELDS: ClassVar[tuple[str, ...]] = ("id", "properties", "undefined")

    def __init__(
        self, id: int, *, properties: Sequence[Property] | None = None, undefined: int = 0
    ) -> None:
        self.id = id
        self.properties = tuple(properties) if properties is not None else None
        self.undefined = undefined


class Subscription(Declaration):
    """
    SUBSCRIPTION: the sender subscribes.

    id: the resource or selection
    mode: how samples are to come
    origin: begin of the first window, in ms
    period: from window to window, in ms
    duration: length of a window, in ms, below the period
    properties: properties
    """

    __slots__ = ("id", "mode", "origin", "period", "duration", "properties")
    __match_args__ = ("id", "mode")
    KIND: ClassVar[int] = 3
    NAME: ClassVar[str] = "SUBSCRIPTION"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "id",
        "mode",
        "origin",
        "period",
        "duration",
        "properties",
        "undefined",
    )

    def __init__(
        self,
        id: int,
        mode: int,
        *,
        origin: int | None = None,
        period: int | None = None,
        duration: int | None = None,
        properties: Sequence[Property] | None = None,
        undefined: int = 0,
    ) -> None:
        self.id = id
        self.mode = mode
        self.origin = origin
        self.period = period
        self.duration = duration
        self.properties = tuple(properties) if properties is not None else None
        self.undefined = undefined


class Selection(Declaration):
    """
    SELECTION: ties an id to a query.

    id: the selection
    query: resource#{tag,tag}?{predicate}
    properties: properties
    is_global: the id is global
    """

    __slots__ = ("id", "query", "properties", "is_global")
    __match_args__ = ("id", "query")
    KIND: ClassVar[int] = 4
    NAME: ClassVar[str] = "SELECTION"
    FIELDS: ClassVar[tuple[str, ...]] = ("id", "query", "properties", "is_global", "undefined")

    def __init__(
        self,
        id: int,
        query: str,
        *,
        properties: Sequence[Property] | None = None,
        is_global: bool = False,
        undefined: int = 0,
    ) -> None:
        self.id = SelectionId(id)
        self.query = query
        self.properties = tuple(properties) if properties is not None else None
        self.is_global = is_global
        self.undefined = undefined


class Binding(Declaration):
    """
    BINDING: ties a selection to another id.

    id: the selection
    new_id: the id that it may also have
    is_global: the id is global
    """

    __slots__ = ("id", "new_id", "is_global")
    __match_args__ = ("id", "new_id")
    KIND: ClassVar[int] = 5
    NAME: ClassVar[str] = "BINDING"
    FIELDS: ClassVar[tuple[str, ...]] = ("id", "new_id", "is_global", "undefined")

    def __init__(
        self, id: int, new_id: int, *, is_global: bool = False, undefined: int = 0
    ) -> None:
        self.id = SelectionId(id)
        self.new_id = new_id
        self.is_global = is_global
        self.undefined = undefined


class Commit(Declaration):
    """
    COMMIT: ends a transaction.

    commit: its number
    """

    __slots__ = ("commit",)
    __match_args__ = ("commit",)
    KIND: ClassVar[int] = 6
    NAME: ClassVar[str] = "COMMIT"
    FIELDS: ClassVar[tuple[str, ...]] = ("commit", "undefined")

    def __init__(self, commit: int, *, undefined: int = 0) -> None:
        self.commit = commit
        self.undefined = undefined


class Result(Declaration):
    """
    RESULT: answers a commit.

    commit: the commit's number
    status: how it went
    id: the id that was at fault
    """

    __slots__ = ("commit", "status", "id")
    __match_args__ = ("commit", "status")
    KIND: ClassVar[int] = 7
    NAME: ClassVar[str] = "RESULT"
    FIELDS: ClassVar[tuple[str, ...]] = ("commit", "status", "id", "undefined")

    def __init__(
        self, commit: int, status: int, *, id: int | None = None, undefined: int = 0
    ) -> None:
        self.commit = commit
        self.status = status
        self.id = id
        self.undefined = undefined


class ForgetResource(Declaration):
    """
    FORGET RESOURCE: takes back a RESOURCE.

    id: the resource
    """

    __slots__ = ("id",)
    __match_args__ = ("id",)
    KIND: ClassVar[int] = 8
    NAME: ClassVar[str] = "FORGET RESOURCE"
    FIELDS: ClassVar[tuple[str, ...]] = ("id", "undefined")

    def __init__(self, id: int, *, undefined: int = 0) -> None:
        self.id = id
        self.undefined = undefined


class ForgetPublication(Declaration):
    """
    FORGET PUBLICATION: takes back a PUBLICATION.

    id: the resource
    """

    __slots__ = ("id",)
    __match_args__ = ("id",)
    KIND: ClassVar[int] = 9
    NAME: ClassVar[str] = "FORGET PUBLICATION"
    FIELDS: ClassVar[tuple[str, ...]] = ("id", "undefined")

    def __init__(self, id: int, *, undefined: int = 0) -> None:
        self.id = id
        self.undefined = undefined


class ForgetSubscription(Declaration):
    """
    FORGET SUBSCRIPTION: takes back a SUBSCRIPTION.

    id: the resource or selection
    """

    __slots__ = ("id",)
    __match_args__ = ("id",)
    KIND: ClassVar[int] = 10
    NAME: ClassVar[str] = "FORGET SUBSCRIPTION"
    FIELDS: ClassVar[tuple[str, ...]] = ("id", "undefined")

    def __init__(self, id: int, *, undefined: int = 0) -> None:
        self.id = id
        self.undefined = undefined


class ForgetSelection(Declaration):
    """
    FORGET SELECTION: takes back a SELECTION.

    id: the selection
    """

    __slots__ = ("id",)
    __match_args__ = ("id",)
    KIND: ClassVar[int] = 11
    NAME: ClassVar[str] = "FORGET SELECTION"
    FIELDS: ClassVar[tuple[str, ...]] = ("id", "undefined")

    def __init__(self, id: int, *, undefined: int = 0) -> None:
        self.id = SelectionId(id)
        self.undefined = undefined


class Scout(Message):
    """
    SCOUT: asks who is there.

    mask: whom the sender looks for
    properties: properties
    """

    __slots__ = ("mask", "properties")
    __match_args__ = ("mask",)
    KIND: ClassVar[int] = 1
    NAME: ClassVar[str] = "SCOUT"
    FIELDS: ClassVar[tuple[str, ...]] = ("mask", "properties", "undefined")

    def __init__(
        self, mask: int, *, properties: Sequence[Property] | None = None, undefined: int = 0
    ) -> None:
        super().__init__()
        self.mask = mask
        self.properties = tuple(properties) if properties is not None else None
        self.undefined = undefined


class Hello(Message):
    """
    HELLO: answers a SCOUT.

    mask: what the sender is
    locators: the multicast groups that the sender has joined
    properties: properties
    """

    __slots__ = ("mask", "locators", "properties")
    __match_args__ = ("mask", "locators")
    KIND: ClassVar[int] = 2
    NAME: ClassVar[str] = "HELLO"
    FIELDS: ClassVar[tuple[str, ...]] = ("mask", "locators", "properties", "undefined")

    def __init__(
        self,
        mask: int,
        locators: Sequence[str],
        *,
        properties: Sequence[Property] | None = None,
        undefined: int = 0,
    ) -> None:
        super().__init__()
        self.mask = mask
        self.locators = tuple(locators)
        self.properties = tuple(properties) if properties is not None else None
        self.undefined = undefined


class Open(Message):
    """
    OPEN: asks for a session.

    version: protocol version, 1
    id: who opens
    lease: how long to wait for a sign of life, in 100 ms; 0 is for ever
    locators: the multicast groups that the sender has joined
    properties: properties
    """

    __slots__ = ("version", "id", "lease", "locators", "properties")
    __match_args__ = ("version", "id", "lease", "locators")
    KIND: ClassVar[int] = 3
    NAME: ClassVar[str] = "OPEN"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "version",
        "id",
        "lease",
        "locators",
        "properties",
        "undefined",
    )

    def __init__(
        self,
        version: int,
        id: Buffer,
        lease: int,
        locators: Sequence[str],
        *,
        properties: Sequence[Property] | None = None,
        undefined: int = 0,
    ) -> None:
        super().__init__()
        self.version = version
        self.id = id
        self.lease = lease
        self.locators = tuple(locators)
        self.properties = tuple(properties) if properties is not None else None
        self.undefined = undefined


class Accept(Message):
    """
    ACCEPT: grants a session.

    opener: who opened
    acceptor: who accepts
    lease: how long to wait for a sign of life, in 100 ms; 0 is for ever
    properties: properties
    """

    __slots__ = ("opener", "acceptor", "lease", "properties")
    __match_args__ = ("opener", "acceptor", "lease")
    KIND: ClassVar[int] = 4
    NAME: ClassVar[str] = "ACCEPT"
    FIELDS: ClassVar[tuple[str, ...]] = ("opener", "acceptor", "lease", "properties", "undefined")

    def __init__(
        self,
        opener: Buffer,
        acceptor: Buffer,
        lease: int,
        *,
        properties: Sequence[Property] | None = None,
        undefined: int = 0,
    ) -> None:
        super().__init__()
        self.opener = opener
        self.acceptor = acceptor
        self.lease = lease
        self.properties = tuple(properties) if properties is not None else None
        self.undefined = undefined


class Close(Message):
    """
    CLOSE: ends or refuses a session.

    id: who closes
    reason: why
    """

    __slots__ = ("id", "reason")
    __match_args__ = ("id", "reason")
    KIND: ClassVar[int] = 5
    NAME: ClassVar[str] = "CLOSE"
    FIELDS: ClassVar[tuple[str, ...]] = ("id", "reason", "undefined")

    def __init__(self, id: Buffer, reason: int, *, undefined: int = 0) -> None:
        super().__init__()
        self.id = id
        self.reason = reason
        self.undefined = undefined


class Declare(Message):
    """
    DECLARE: tells what the sender publishes, subscribes to and names.

    sn: number in the conduit's reliable counter
    declarations: one or more declarations
    sync: answer with an ACKNACK at once
    committed: in effect at once, without a commit and a result
    """

    __slots__ = ("sn", "declarations", "sync", "committed")
    __match_args__ = ("sn", "declarations")
    KIND: ClassVar[int] = 6
    NAME: ClassVar[str] = "DECLARE"
    FIELDS: ClassVar[tuple[str, ...]] = ("sn", "declarations", "sync", "committed", "undefined")

    def __init__(
        self,
        sn: int,
        declarations: Sequence[Declaration],
        *,
        sync: bool = False,
        committed: bool = False,
        undefined: int = 0,
    ) -> None:
        super().__init__()
        self.sn = sn
        self.declarations = tuple(declarations)
        self.sync = sync
        self.committed = committed
        self.undefined = undefined


class SData(Message):
    """
    SDATA: one sample of a resource.

    sn: number in the conduit's counter, reliable or not
    rid: the resource; with A the selection or pattern that it is sent for
    data_rid: the resource that the data belongs to; 0 ends a pull
    payload: the sample
    sync: answer with an ACKNACK at once
    reliable: counted, acknowledged and repeated until it has arrived
    """

    __slots__ = ("sn", "rid", "data_rid", "payload", "sync", "reliable")
    __match_args__ = ("sn", "rid", "payload")
    KIND: ClassVar[int] = 7
    NAME: ClassVar[str] = "SDATA"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "sn",
        "rid",
        "data_rid",
        "payload",
        "sync",
        "reliable",
        "undefined",
    )

    def __init__(
        self,
        sn: int,
        rid: int,
        payload: Buffer,
        *,
        data_rid: int | None = None,
        sync: bool = False,
        reliable: bool = False,
        undefined: int = 0,
    ) -> None:
        super().__init__()
        self.sn = sn
        self.rid = rid
        self.data_rid = data_rid
        self.payload = payload
        self.sync = sync
        self.reliable = reliable
        self.undefined = undefined


class BData(Message):
    """
    BDATA: several samples of a resource.

    sn: number in the conduit's counter, reliable or not
    rid: the resource; with A the selection or pattern that it is sent for
    samples: the samples
    sync: answer with an ACKNACK at once
    reliable: counted, acknowledged and repeated until it has arrived
    actual: each sample names the resource that it belongs to
    """

    __slots__ = ("sn", "rid", "samples", "sync", "reliable", "actual")
    __match_args__ = ("sn", "rid", "samples")
    KIND: ClassVar[int] = 8
    NAME: ClassVar[str] = "BDATA"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "sn",
        "rid",
        "samples",
        "sync",
        "reliable",
        "actual",
        "undefined",
    )

    def __init__(
        self,
        sn: int,
        rid: int,
        samples: Sequence[Sample],
        *,
        sync: bool = False,
        reliable: bool = False,
        actual: bool = False,
        undefined: int = 0,
    ) -> None:
        super().__init__()
        self.sn = sn
        self.rid = rid
        self.samples = tuple(samples)
        self.sync = sync
        self.reliable = reliable
        self.actual = actual
        self.undefined = undefined


class WData(Message):
    """
    WDATA: one sample of a resource given by name.

    sn: number in the conduit's counter, reliable or not
    uri: name of the resource, may hold wildcards
    payload: the sample
    sync: answer with an ACKNACK at once
    reliable: counted, acknowledged and repeated until it has arrived
    """

    __slots__ = ("sn", "uri", "payload", "sync", "reliable")
    __match_args__ = ("sn", "uri", "payload")
    KIND: ClassVar[int] = 9
    NAME: ClassVar[str] = "WDATA"
    FIELDS: ClassVar[tuple[str, ...]] = ("sn", "uri", "payload", "sync", "reliable", "undefined")

    def __init__(
        self,
        sn: int,
        uri: str,
        payload: Buffer,
        *,
        sync: bool = False,
        reliable: bool = False,
        undefined: int = 0,
    ) -> None:
        super().__init__()
        self.sn = sn
        self.uri = uri
        self.payload = payload
        self.sync = sync
        self.reliable = reliable
        self.undefined = undefined


class Pull(Message):
    """
    PULL: asks for stored samples of a subscription.

    sn: number in the conduit's reliable counter
    rid: the resource or selection
    limit: how many samples at the most
    sync: answer with an ACKNACK at once
    final: nothing more will be asked in this pull session
    """

    __slots__ = ("sn", "rid", "limit", "sync", "final")
    __match_args__ = ("sn", "rid")
    KIND: ClassVar[int] = 11
    NAME: ClassVar[str] = "PULL"
    FIELDS: ClassVar[tuple[str, ...]] = ("sn", "rid", "limit", "sync", "final", "undefined")

    def __init__(
        self,
        sn: int,
        rid: int,
        *,
        limit: int | None = None,
        sync: bool = False,
        final: bool = False,
        undefined: int = 0,
    ) -> None:
        super().__init__()
        self.sn = sn
        self.rid = rid
        self.limit = limit
        self.sync = sync
        self.final = final
        self.undefined = undefined


class Ping(Message):
    """
    PING: asks for a PONG.

    hash: comes back in the PONG
    """

    __slots__ = ("hash",)
    __match_args__ = ("hash",)
    KIND: ClassVar[int] = 12
    NAME: ClassVar[str] = "PING"
    FIELDS: ClassVar[tuple[str, ...]] = ("hash", "undefined")

    def __init__(self, hash: int, *, undefined: int = 0) -> None:
        super().__init__()
        self.hash = hash
        self.undefined = undefined


class Pong(Message):
    """
    PONG: answers a PING.

    hash: the PING's
    """

    __slots__ = ("hash",)
    __match_args__ = ("hash",)
    KIND: ClassVar[int] = 13
    NAME: ClassVar[str] = "PONG"
    FIELDS: ClassVar[tuple[str, ...]] = ("hash", "undefined")

    def __init__(self, hash: int, *, undefined: int = 0) -> None:
        super().__init__()
        self.hash = hash
        self.undefined = undefined


class Synch(Message):
    """
    SYNCH: tells where the sender of a conduit is.

    sn: the next number to be sent
    count: how many messages before it are unacknowledged
    sync: answer with an ACKNACK at once
    reliable: counted, acknowledged and repeated until it has arrived
    """

    __slots__ = ("sn", "count", "sync", "reliable")
    __match_args__ = ("sn",)
    KIND: ClassVar[int] = 14
    NAME: ClassVar[str] = "SYNCH"
    FIELDS: ClassVar[tuple[str, ...]] = ("sn", "count", "sync", "reliable", "undefined")

    def __init__(
        self,
        sn: int,
        *,
        count: int | None = None,
        sync: bool = False,
        reliable: bool = False,
        undefined: int = 0,
    ) -> None:
        super().__init__()
        self.sn = sn
        self.count = count
        self.sync = sync
        self.reliable = reliable
        self.undefined = undefined


class AckNack(Message):
    """
    ACKNACK: tells what has arrived and what is missing.

    sn: everything before it has arrived
    mask: sn is wanted again, and sn + 1 + i for each bit i
    """

    __slots__ = ("sn", "mask")
    __match_args__ = ("sn",)
    KIND: ClassVar[int] = 15
    NAME: ClassVar[str] = "ACKNACK"
    FIELDS: ClassVar[tuple[str, ...]] = ("sn", "mask", "undefined")

    def __init__(self, sn: int, *, mask: int | None = None, undefined: int = 0) -> None:
        super().__init__()
        self.sn = sn
        self.mask = mask
        self.undefined = undefined


class KeepAlive(Message):
    """
    KEEPALIVE: a sign of life.

    id: who lives
    """

    __slots__ = ("id",)
    __match_args__ = ("id",)
    KIND: ClassVar[int] = 16
    NAME: ClassVar[str] = "KEEPALIVE"
    FIELDS: ClassVar[tuple[str, ...]] = ("id", "undefined")

    def __init__(self, id: Buffer, *, undefined: int = 0) -> None:
        super().__init__()
        self.id = id
        self.undefined = undefined


class ConduitClose(Message):
    """
    CONDUIT CLOSE: tells that a conduit carries nothing any more.

    left: the conduit
    """

    __slots__ = ("left",)
    __match_args__ = ("left",)
    KIND: ClassVar[int] = 17
    NAME: ClassVar[str] = "CONDUIT CLOSE"
    FIELDS: ClassVar[tuple[str, ...]] = ("left", "undefined")

    def __init__(self, left: int, *, undefined: int = 0) -> None:
        super().__init__()
        self.left = left
        self.undefined = undefined


class Frag(Message):
    """
    FRAG: the message after it carries a fragment of a sample.

    first: number of the first fragment
    fragments: how many fragments the sample has
    """

    __slots__ = ("first", "fragments")
    __match_args__ = ("first",)
    KIND: ClassVar[int] = 18
    NAME: ClassVar[str] = "FRAG"
    FIELDS: ClassVar[tuple[str, ...]] = ("first", "fragments", "undefined")

    def __init__(self, first: int, *, fragments: int | None = None, undefined: int = 0) -> None:
        super().__init__()
        self.first = first
        self.fragments = fragments
        self.undefined = undefined


class Conduit(Message):
    """
    CONDUIT: the messages after it belong to this conduit.

    conduit: the conduit; 0 if there is no marker
    long: written in the long form although there is a short one
    """

    __slots__ = ("long",)
    __match_args__ = ("conduit",)
    KIND: ClassVar[int] = 19
    NAME: ClassVar[str] = "CONDUIT"
    FIELDS: ClassVar[tuple[str, ...]] = ("conduit", "long", "undefined")

    def __init__(self, conduit: int, *, long: bool = False, undefined: int = 0) -> None:
        super().__init__()
        self.conduit = conduit
        self.long = long
        self.undefined = undefined


class Migrate(Message):
    """
    MIGRATE: tells that traffic continues on this conduit.

    left: the conduit left behind
    rid: the resource or selection that moves
    last_reliable: the last reliable number there
    last_unreliable: the last unreliable number there
    """

    __slots__ = ("left", "rid", "last_reliable", "last_unreliable")
    __match_args__ = ("left", "last_reliable", "last_unreliable")
    KIND: ClassVar[int] = 20
    NAME: ClassVar[str] = "MIGRATE"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "left",
        "rid",
        "last_reliable",
        "last_unreliable",
        "undefined",
    )

    def __init__(
        self,
        left: int,
        last_reliable: int,
        last_unreliable: int,
        *,
        rid: int | None = None,
        undefined: int = 0,
    ) -> None:
        super().__init__()
        self.left = left
        self.rid = rid
        self.last_reliable = last_reliable
        self.last_unreliable = last_unreliable
        self.undefined = undefined


class RSpace(Message):
    """
    RSPACE: the ids in the message after it belong to this resource space.

    space: the space: 0 is the default, 1 is the brokers'
    long: written in the long form although there is a short one
    """

    __slots__ = ("long",)
    __match_args__ = ("space",)
    KIND: ClassVar[int] = 24
    NAME: ClassVar[str] = "RSPACE"
    FIELDS: ClassVar[tuple[str, ...]] = ("space", "long", "undefined")

    def __init__(self, space: int, *, long: bool = False, undefined: int = 0) -> None:
        super().__init__()
        self.space = space
        self.long = long
        self.undefined = undefined


MESSAGES: dict[int, type[Message]] = {
    1: Scout,
    2: Hello,
    3: Open,
    4: Accept,
    5: Close,
    6: Declare,
    7: SData,
    8: BData,
    9: WData,
    11: Pull,
    12: Ping,
    13: Pong,
    14: Synch,
    15: AckNack,
    16: KeepAlive,
    17: ConduitClose,
    18: Frag,
    19: Conduit,
    20: Migrate,
    24: RSpace,
}


DECLARATIONS: dict[int, type[Declaration]] = {
    1: Resource,
    2: Publication,
    3: Subscription,
    4: Selection,
    5: Binding,
    6: Commit,
    7: Result,
    8: ForgetResource,
    9: ForgetPublication,
    10: ForgetSubscription,
    11: ForgetSelection,
}


__all__ = [
    "DECLARATIONS",
    "MESSAGES",
    "Accept",
    "AckNack",
    "BData",
    "Binding",
    "Close",
    "Commit",
    "Conduit",
    "ConduitClose",
    "Declare",
    "ForgetPublication",
    "ForgetResource",
    "ForgetSelection",
    "ForgetSubscription",
    "Frag",
    "Hello",
    "KeepAlive",
    "Migrate",
    "Mode",
    "Open",
    "Ping",
    "Pong",
    "Property",
    "PropertyId",
    "Publication",
    "Pull",
    "RSpace",
    "Reason",
    "Resource",
    "Result",
    "Role",
    "SData",
    "Sample",
    "Scout",
    "Selection",
    "Status",
    "Subscription",
    "Synch",
    "WData",
]
