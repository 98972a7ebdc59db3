"""Shows training progress as a progress bar on a terminal, and as lines of text elsewhere."""

import contextlib
import math
import sys
import time
from typing import Any

from tqdm import tqdm

from nmt.errors import one_line
from nmt.training.health import has_learned
from nmt.training.validation import Validation

_SILENT_S = 60.0  # maximum time without a line of text, in seconds


class Console:
    """Shows steps, validations and messages on standard error.

    Args:
        step: the step of the checkpoint that the run resumes from, or 0 for a new run.
        max_steps: the maximum number of steps in the run.
        most_s: the seconds after which the run ends, even if it has not reached `max_steps`.
    """

    def __init__(self, step: int, max_steps: int, most_s: float = math.inf):
        self._opened, self._first, self._max_steps = time.monotonic(), step + 1, max_steps
        self._most_s = most_s
        self._shown, self._step = self._opened, step  # the time of the last line; the last step
        self._bar = tqdm(
            total=max_steps, initial=step, unit="step", dynamic_ncols=True,
            disable=not sys.stderr.isatty(),
        )  # fmt: skip

    def close(self) -> None:
        """Closes the progress bar."""
        self._bar.close()

    def advance(self) -> None:
        """Advances the progress bar by one step.

        Without a progress bar, shows the last step if nothing was shown for `_SILENT_S` seconds.
        """
        if self._bar.disable and time.monotonic() - self._shown > _SILENT_S:
            self.note(f"step {self._step}/{self._max_steps}")
        self._step += 1
        self._bar.update(1)

    def step(self, facts: dict[str, Any]) -> None:
        """Shows a step's log entry and, without a progress bar, the estimated remaining time."""
        step, missing = facts["step"], self._max_steps - facts["step"]
        text = (
            f"epoch {facts['epoch']} loss {facts['loss']:.3f} nll {facts['nll']:.3f} "
            f"lr {facts['learning_rate']:.1e} {facts['tokens_per_second']:.0f} target tokens/s"
        )
        self._bar.set_postfix_str(text)
        if self._bar.disable:
            # estimated from the average time per step so far, including validation and saving
            passed = time.monotonic() - self._opened
            left = min(passed / (step - self._first + 1) * missing, max(self._most_s - passed, 0))
            text += f", {_duration(left)} left" if missing else ""
            self.note(f"step {step}/{self._max_steps} {text}")

    def validation(self, step: int, result: Validation) -> None:
        """Shows a validation's scores and up to two sample translations."""
        ppl = f"{result.ppl:.2f}" if result.ppl < 1e6 else f"{result.ppl:.1e}"
        text = f"validation at step {step}: nll {result.nll:.3f} ppl {ppl} bleu {result.bleu:.2f}"
        if not has_learned(result.facts):
            text += (
                " (almost nothing learned so far: predictions from token frequencies alone have an "
                f"nll of {result.unigram_nll:.3f})"
            )
        self.note(text)
        for source, reference, translation in result.samples[:2]:
            self.note(f"  source      {source}")
            self.note(f"  reference   {reference}")
            self.note(f"  translation {translation}")

    def note(self, text: str) -> None:
        """Shows a message above the progress bar."""
        self._shown = time.monotonic()
        with contextlib.suppress(OSError):  # training continues if standard error is closed
            self._bar.write(one_line(text), file=sys.stderr)


def _duration(seconds: float) -> str:
    """Formats a duration, for example as "45 s", "12 min" or "3.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
