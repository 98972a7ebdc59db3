"""What a run tells TensorBoard is shown, not run."""

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt.training.run_log import RunLog
from nmt.training.validation import Validation


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what TensorBoard brings along
def test_a6_samples_are_harmless_in_tensorboard(tmp_path: Path):
    """As its text dashboard makes HTML of them."""
    from tensorboard import plugin_util

    evil = "<script>alert(1)</script> <img src=x onerror=alert(1)> [x](javascript:alert(1)) | a"
    with RunLog(tmp_path, 0, 1) as log:
        log.validation(1, Validation(1.0, 1.0, 0.0, "s", [(evil, evil, evil)]))
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    [tag] = events.Tags()["tensors"]
    [event] = events.Tensors(tag)
    html = plugin_util.markdown_to_safe_html(event.tensor_proto.string_val[0])
    assert "alert(1)" in html  # as text
    for active in ("<script", "<img", 'href="javascript', "href='javascript"):
        assert active not in html
    assert html.count("<tr>") == 2
