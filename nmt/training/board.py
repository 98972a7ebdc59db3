"""TensorBoard's event file, written directly; a failure gives one warning.

TensorBoard's own writer opens the file by its name for each batch of events, in a thread: if the
folder is gone, that thread ends in a traceback; if the run was renamed, it writes into another run.
"""

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard import summary

from nmt.errors import Note
from nmt.storage.atomic import write_file

_FILE = "events.out.tfevents"  # its name's beginning, by which TensorBoard knows it


def forget(folder: Path, is_kept: Callable[[str, int], bool]) -> None:
    """Removes events from a run's earlier files; what another program wrote there stays as it is.

    To tell TensorBoard that a run begins again at a step (see `Board`) removes no texts, and makes
    no difference between validations, which may be done again, and the training step before them.

    Args:
        is_kept: told the tag and the step of an event's value.
    """
    for path in folder.glob(f"{_FILE}.*"):
        if not path.is_file():
            continue
        try:
            kept = [
                record
                for record, event in _records(path.read_bytes())
                if all(is_kept(value.tag, event.step) for value in event.summary.value)
            ]
        except DecodeError:
            continue
        if sum(map(len, kept)) != path.stat().st_size:
            write_file(path, b"".join(kept))


def _records(data: bytes) -> Iterator[tuple[bytes, Any]]:
    """The records of a file as they stand there, each with its event; a torn last one is left out.

    A record is the event's length in bytes, 8 bytes, their checksum, 4, the event, its checksum, 4.
    """
    start = 0
    while start + 12 <= len(data):
        length = int.from_bytes(data[start : start + 8], "little")
        end = start + 12 + length + 4
        if end > len(data):
            return
        yield data[start:end], Event.FromString(data[start + 12 : end - 4])
        start = end


class Board:
    """The events of a run, from a step on.

    Args:
        folder: of the run's event files; created if missing.
        first_step: a running TensorBoard forgets scalars and pictures of this step or later.
        note: is told once if nothing more can be written.
    """

    def __init__(self, folder: Path, first_step: int, note: Note):
        self._note, self._is_lost = note, False
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{_FILE}.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
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

    def picture(self, name: str, png: bytes, step: int) -> None:
        """Adds a picture."""
        width, height = struct.unpack(">II", png[16:24])  # where every PNG has them
        image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=png)
        self._write(Event(step=step, summary=Summary(value=[Summary.Value(tag=name, image=image)])))

    def outcome(self, settings: Mapping[str, str | float], scores: Mapping[str, float]) -> None:
        """Adds what the HParams dashboard compares: a run's settings and names of its scores.

        Args:
            scores: by the names under which `scalar` adds them.
        """
        for each in summary.hparams(dict(settings), dict(scores)):
            self._write(Event(summary=each))

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
