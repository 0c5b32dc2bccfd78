"""How packets are read: three readings, and the limits that a receiver may know."""

from __future__ import annotations

from typing import Any, Literal

from pyddsi._native import ffi, lib

Strictness = Literal["tolerant", "strict", "zhe"]

_STRICTNESS = {
    "tolerant": lib.PYDDSI_TOLERANT,
    "strict": lib.PYDDSI_STRICT,
    "zhe": lib.PYDDSI_ZHE,
}


class Reading:
    """
    A way to read packets, made once and used for many.

    strictness: "tolerant" takes everything that can be understood; "strict" demands what a correct sender keeps to;
        "zhe" takes what the reference peer takes
    extensions: whether the messages that zhe does not have are taken (the reading "zhe" never takes them)
    seq_bits: the length of sequence numbers, 7 to 56; None takes any ("zhe": 14)
    rid_bits: the width of an id on the wire: 8, 16, 32 or 64; None is 64 ("zhe": 32)
    conduits: how many conduits the receiver has, which "zhe" looks at; None is any
    """

    __slots__ = ("_memory", "native")

    def __init__(
        self,
        strictness: Strictness = "tolerant",
        *,
        extensions: bool = True,
        seq_bits: int | None = None,
        rid_bits: int | None = None,
        conduits: int | None = None,
    ) -> None:
        if strictness not in _STRICTNESS:
            raise ValueError(f"strictness is tolerant, strict or zhe, not {strictness!r}")
        if seq_bits is not None and not 7 <= seq_bits <= 56:
            raise ValueError(f"sequence numbers have 7 to 56 bits, not {seq_bits}")
        if rid_bits is not None and rid_bits not in {8, 16, 32, 64}:
            raise ValueError(f"ids are 8, 16, 32 or 64 bits wide, not {rid_bits}")
        if conduits is not None and not 1 <= conduits <= 65536:
            raise ValueError(f"a receiver has 1 to 65536 conduits, not {conduits}")
        options = ffi.new("pyddsi_options *")
        options.strictness = _STRICTNESS[strictness]
        options.base_only = not extensions
        options.seq_bits = seq_bits or 0
        options.rid_bits = rid_bits or 0
        options.conduits = conduits or 0
        self.native: Any = ffi.new("pyddsi_reading *")
        lib.pyddsi_reading_init(self.native, options)
        self._memory = bytes(ffi.buffer(self.native))

    @property
    def memory(self) -> bytes:
        """The prepared reading as bytes, for the hot calls."""
        return self._memory


TOLERANT = Reading()
STRICT = Reading("strict")
ZHE = Reading("zhe")
