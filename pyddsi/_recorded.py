"""The part of a session that writes down what it says and hears; pyddsi/capture/_record.py does it."""

from __future__ import annotations

from pyddsi.errors import CaptureError

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    import os
    from _thread import LockType
    from typing import Any

    from pyddsi._native import Keeper
    from pyddsi.capture._record import Recorder
    from pyddsi.errors import ClosedError
    from pyddsi.session import Session

__all__ = ["Recorded"]


class Recorded:
    """What can be recorded."""

    _keeper: Keeper
    _local: Any
    _lock: LockType
    _recorded: bool
    """It is being recorded since it began, and nobody takes that yet."""
    _recorder: Recorder | None
    _wall_ns: int

    @property
    def title(self) -> str:
        """What it is called in messages."""
        raise NotImplementedError

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        raise NotImplementedError

    def closed_error(self, what: str = "") -> ClosedError:
        """The error for something that was asked for after the end."""
        raise NotImplementedError

    def record(
        self,
        path: str | os.PathLike[str],
        *,
        max_size: int | None = None,
        max_time: float | None = None,
        keep: int | None = None,
        count: int | None = None,
        overwrite: bool = False,
    ) -> Recorder:
        """
        Record what this session says and hears into a pcapng file, until that is closed, or the session is.

        max_size, max_time: begin another file (run_00001.pcapng, run_00002.pcapng, ...) before one has more bytes than this,
        or holds more seconds
        keep: of these, only the newest so many
        count: end after so many packets
        overwrite: files that exist, instead of an error

        It needs no privilege, and the session never waits for it: what finds no room is left out, and counted. Raises
        CaptureError if the file exists or cannot be written, or the session is being recorded.
        """
        from typing import cast  # noqa: PLC0415 - see the top of pyddsi/__init__.py

        from pyddsi.capture._record import of_session  # noqa: PLC0415 - few are recorded
        from pyddsi.capture._rotate import Files  # noqa: PLC0415

        with self._lock:
            if self._recorder is not None and not self._recorder.closed:
                raise CaptureError(
                    f"{self.title} is being recorded into {self._recorder.files[-1]}; close() that first"
                )
            if self.closed:
                raise self.closed_error()
            files = Files(
                path,
                max_size=max_size,
                max_time=max_time,
                keep=keep,
                count=count,
                overwrite=overwrite,
            )
            begun_ns = self._wall_ns if self._recorded else None
            self._recorded = False
            self._recorder = of_session(
                cast("Session", self), self._keeper, self._local, files, begun_ns
            )
            return self._recorder
