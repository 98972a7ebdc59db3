"""Decoding on an emulated GPU: captured steps, devices and memory."""

import gc
import re
import threading
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.data.prepared_data import PreparedData
from nmt.decoding.beam_search import ToHost
from nmt.decoding.constraints import ForcedPrefix
from nmt.decoding.loading import choose_device
from nmt.decoding.options import SearchOptions
from nmt.errors import InputError
from nmt.model import positions
from nmt.model.kernels import cuda_graphs, static_stepper
from nmt.model.kernels.static_stepper import DecodeBuffers
from nmt.training import step
from nmt.translator import Translator
from tests.model.paper import new_model
from tests.pretended_gpu import OWN, Gpu, pretend

TEXTS = ["the man reads", "the old man", "a dog", "a small house", "no"]


@pytest.fixture
def expected(settings):
    """Returns a function that creates translators with the same weights."""
    config = settings(
        model__encoder_layers=1, model__decoder_layers=1, decoding__max_extra_length=2
    )
    tokenizer = PreparedData.of(config).tokenizer()
    weights = new_model(config, seed=1).state_dict()

    def make(**decoding: int) -> Translator:
        model = new_model(config, seed=1).eval()
        model.load_state_dict(weights)
        changed = config.decoding.model_copy(update=decoding)
        return Translator.of(model, tokenizer, config.model_copy(update={"decoding": changed}))

    return make


def texts_of(translator: Translator, **options) -> list[str]:
    found = translator.translate(TEXTS, SearchOptions(**{"batch_tokens": 150} | options))
    return [each.text for each in found]


@pytest.fixture
def gpu(monkeypatch) -> Gpu:
    return pretend(monkeypatch)


def test_captured_steps_read_nothing_that_moves(expected, monkeypatch):
    """Covers several batches, sentences that leave, long outputs, and interleaved scoring."""
    monkeypatch.setattr(static_stepper, "_FEW_SENTENCES", (1, 2))
    monkeypatch.setattr(static_stepper, "_SHRINK", 2)
    monkeypatch.setattr(static_stepper, "_LEAST_LENGTH", 8)
    monkeypatch.setattr(positions, "_LEAST_ROWS", 8)  # the table soon has to grow
    plain, line = expected(), " ".join(["the"] * 40)
    options = [{}, {"beam": 3, "n_best": 3}, {"mbr": 4}]
    wanted = [texts_of(plain, **each) for each in options]
    wanted_long = expected(max_extra_length=40).translate("no", beam=2).text
    score = plain.score(line, "der Mann").log_probability
    gpu = pretend(monkeypatch)
    translator = expected()
    for each, texts in zip(options, wanted, strict=True):
        assert texts_of(translator, **each) == texts
        assert translator.score(line, "der Mann").log_probability == pytest.approx(score)
    captured = gpu.count("capture")
    assert captured > 5 and gpu.count("replay") > 2 * captured
    assert texts_of(translator) == wanted[0]
    assert gpu.count("capture") == captured  # buffers of all sizes exist
    long = expected(max_extra_length=40)
    assert long.translate("no", beam=2).text == wanted_long
    assert texts_of(long, beam=2) and long.translate("no", beam=2).text == wanted_long
    assert len(gpu.pools) == 2  # one per model


def test_weights_that_are_changed_in_place_are_those_of_captured_steps(expected, gpu):
    translator, other = expected(), expected()
    before = texts_of(translator)
    other.transformer.initialize(7)
    after = texts_of(other)
    assert texts_of(translator) == before != after
    translator.transformer.load_state_dict(other.transformer.state_dict())
    assert texts_of(translator) == after


@pytest.mark.parametrize("in_thread", [False, True])
def test_all_happens_on_the_models_own_device(expected, gpu, in_thread: bool):
    """The current device, which is per thread, has no influence."""
    # creates torch's default capture stream, on device 0
    torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local").__enter__()
    gpu.calls.clear()
    translator, found = expected(), []

    def work() -> None:
        for options in ({}, {"sample": True}, {"no_repeat_ngram": 2}):
            found.extend(texts_of(translator, **options))

    if in_thread:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    else:
        work()
    assert len(found) == 3 * len(TEXTS)
    names = {name for name, _ in gpu.calls}
    assert {"capture", "record", "synchronize", "stream", "wait"} <= names
    assert gpu.devices == {OWN}


def test_a_steps_result_is_awaited_on_its_own_device(gpu, monkeypatch):
    monkeypatch.setattr(step, "is_gpu", lambda device: True)
    event = step._mark(torch.device("cuda", 1))
    assert event and gpu.calls == [("record", 1)]


def test_what_comes_to_the_host_is_awaited_on_the_stream_that_copies_it(gpu, monkeypatch):
    """An event recorded before the copy, or on another stream, could complete before the copy."""
    tensor, done, record = torch.arange(3), [], torch.cuda.Event.record

    class Copies(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func in (torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default):
                done.append(("copy", torch.cuda.current_stream(tensor.device)))
            return func(*args, **kwargs or {})

    def recorded(event, stream=None):
        done.append(("record", stream or torch.cuda.current_stream()))
        record(event, stream)

    monkeypatch.setattr(torch.cuda.Event, "record", recorded)
    with Copies(), torch.cuda.device(tensor.device):
        on_host = ToHost(tensor)
    (first, copying), (last, recording) = done
    assert (first, last) == ("copy", "record") and copying is recording
    assert on_host.wait().tolist() == tensor.tolist()


def test_where_a_gpu_is_chosen_attention_avoids_cudnn(monkeypatch):
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: torch.ones(1))
    was = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    try:
        choose_device("cpu")
        assert torch.backends.cuda.cudnn_sdp_enabled()
        choose_device("cuda:1")
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(was)


def test_a_translator_frees_its_buffers_with_itself(expected, gpu):
    translator = expected()
    texts_of(translator)
    kept = [weakref.ref(each) for each in translator.search.buffers[0]._unused]
    assert kept
    gc.disable()
    try:
        del translator
        assert not any(each() for each in kept)
    finally:
        gc.enable()


def test_unused_buffers_leave_memory_to_others(expected, gpu):
    translator = expected()
    pool = translator.search.buffers[0]
    texts_of(translator)
    sizes = [each.size.bytes(translator.transformer) for each in pool._unused]
    assert len(sizes) > 1
    gpu.free = max(sizes)
    texts_of(translator)
    kept = sum(each.size.bytes(translator.transformer) for each in pool._unused)
    assert 0 < kept <= gpu.free
    gpu.free = 0
    texts_of(translator)
    assert pool._unused == []


class Allocator:
    """Raises OutOfMemoryError if more than `most` buffers exist at once."""

    def __init__(self, monkeypatch, most: int):
        self.most, self.refused = most, 0
        self.live: weakref.WeakSet[DecodeBuffers] = weakref.WeakSet()
        allocate = DecodeBuffers.__init__

        def limited(buffers, *arguments) -> None:
            if len(self.live) >= self.most:
                self.refused += 1
                raise torch.OutOfMemoryError("CUDA out of memory.")
            allocate(buffers, *arguments)
            self.live.add(buffers)

        monkeypatch.setattr(DecodeBuffers, "__init__", limited)


def test_a_batch_waits_until_others_leave_it_memory(expected, gpu, monkeypatch):
    wanted = texts_of(expected())
    allocator = Allocator(monkeypatch, most=1)
    told = []
    translator = expected()
    options = SearchOptions(batch_tokens=1)  # too few for two sentences
    found = translator.translate(TEXTS, options, progress=told.append)
    assert [each.text for each in found] == wanted
    assert allocator.refused and sum(told) == len(TEXTS)


def test_a_failed_attempt_frees_its_memory_before_the_next_one(expected, gpu, monkeypatch):
    """Both batches outgrow their buffers, and there is memory for one batch only."""
    wanted = [expected(max_extra_length=40).translate(each).text for each in TEXTS[-2:]]
    assert max(map(len, wanted)) > 32  # tokens (one per byte); the first buffers are shorter
    allocator, translator = Allocator(monkeypatch, most=2), expected(max_extra_length=40)
    gc.disable()
    try:
        found = translator.translate(TEXTS[-2:], SearchOptions(batch_tokens=1))
    finally:
        gc.enable()
    assert [each.text for each in found] == wanted
    assert allocator.refused == 2


def test_too_little_memory_for_one_batch_is_an_error(expected, gpu, monkeypatch):
    """After one retry, the error names options that the caller can lower."""
    allocator, translator = Allocator(monkeypatch, most=0), expected()
    with pytest.raises(InputError, match=r"Out of memory on cpu .* Lower batch_tokens or beam"):
        texts_of(translator)
    assert allocator.refused >= 2


def broken(step):
    """Captures a step so that repeating it never updates the logits."""
    logits = step()
    return lambda: logits


def refused(step):
    raise RuntimeError("operation not permitted\nand a stack")


@pytest.mark.parametrize(
    ("captured", "reason"),
    [
        (broken, r"relative error of a captured step's logits is \S+, above the limit of 0\.001"),
        (refused, r"failed \(operation not permitted\)"),
    ],
)
def test_a_captured_step_that_is_wrong_is_not_used(
    expected, gpu, monkeypatch, capsys, captured, reason
):
    """One warning gives the reason, and translation continues without graphs."""
    monkeypatch.setattr(cuda_graphs.Capturer, "captured", lambda _, step: captured(step))
    translator = expected()
    found = texts_of(translator), texts_of(translator, beam=1)
    pool = translator.search.buffers[0]
    assert pool._unused == [] and pool._is_sound is False
    monkeypatch.undo()
    assert found == (texts_of(expected()), texts_of(expected(), beam=1))
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("nmt: warning: Decoding on cpu runs without CUDA graphs")
    assert re.search(reason, line)


def test_after_a_failed_capture_the_thread_is_back_on_its_stream(expected, gpu, monkeypatch):
    """torch does not restore the stream if ending a capture raises an error."""
    entered = []

    class Failing:
        def __init__(self, graph, stream, **_):
            entered.append(torch.cuda.stream(stream))

        def __enter__(self):
            entered[-1].__enter__()

        def __exit__(self, *_):
            raise RuntimeError("operation failed due to a previous error during capture")

    monkeypatch.setattr(torch.cuda, "graph", Failing)
    assert len(texts_of(expected())) == len(TEXTS)
    assert entered
    assert not isinstance(torch.cuda.current_stream(torch.device("cuda", OWN)), torch.cuda.Stream)


class Silent:
    """Steps on a device whose values the host cannot read."""

    def step(self, last_tokens, parents):
        return torch.zeros(*last_tokens.shape, 9, device="meta")

    def keep(self, sentences):
        pass


def test_a_prefix_is_forced_without_reading_from_the_device():
    steps = ForcedPrefix(Silent(), [[5, 6], [], [7]], "meta")
    tokens = torch.zeros(3, 2, dtype=torch.int64, device="meta")
    assert steps.step(tokens, tokens).shape == (3, 2, 9)
    steps.keep(torch.zeros(2, dtype=torch.int64, device="meta"))
    assert steps.step(tokens[:2], tokens[:2]).shape == (2, 2, 9)
