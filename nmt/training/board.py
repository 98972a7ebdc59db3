"""TensorBoard's event file, written directly; a failure gives one warning.

TensorBoard's own writer opens the file by its name for each batch of events, in a thread: if the
folder is gone, that thread ends in a traceback; if the run was renamed, it writes into another run.
"""

import os
import socket
import time
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard import summary

from nmt.errors import Note


class Board:
    """The events of a run, from a step on.

    Args:
        folder: of the run's event files; created if missing.
        first_step: events of this step or later in earlier files are no longer shown.
        note: is told once if nothing more can be written.
    """

    def __init__(self, folder: Path, first_step: int, note: Note):
        self._note, self._is_lost = note, False
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._path = folder / name
        self._file = self._path.open("ab")
        self._records = RecordWriter(self._file)
        self._write(Event(file_version="brain.Event:2"))
        start = SessionLog(status=SessionLog.START)
        self._write(Event(step=first_step, session_log=start))

    def scalar(self, name: str, value: float, step: int) -> None:
        """Adds a point to the curve of that name."""
        self._write(Event(step=step, summary=summary.scalar(name, value)))

    def text(self, name: str, markdown: str, step: int) -> None:
        """Adds a text in Markdown."""
        self._write(Event(step=step, summary=summary.text(name, markdown)))

    def close(self) -> None:
        """Closes the file."""
        try:
            self._file.close()
        except OSError as error:
            self._lose(str(error.strerror))

    def _write(self, event: Any) -> None:
        if self._is_lost:
            return
        event.wall_time = time.time()
        try:
            self._records.write(event.SerializeToString())
            self._file.flush()
            if not self._path.exists():
                self._lose("removed")
        except OSError as error:
            self._lose(str(error.strerror))

    def _lose(self, reason: str) -> None:
        self._is_lost = True
        self._note(
            f"nmt: warning: TensorBoard gets no more ({reason}), {self._path}, training goes on"
        )
