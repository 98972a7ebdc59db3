"""On a simulated GPU, translations equal those of a CPU, and no step of a search waits."""

import copy

import numpy as np
import pytest
import torch

from nmt.config import Decoding, validate
from nmt.data.pair import Pair
from nmt.decoding.alignment import cross_attention
from nmt.decoding.batched_search import BatchedSearch, SearchInput
from nmt.decoding.beam_search import Hypothesis, search
from nmt.decoding.options import SearchOptions
from nmt.decoding.score import log_probabilities
from nmt.model.special_ids import EOS_ID
from nmt.model.stepper import Stepper
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import new_transformer
from nmt.translator import Translator
from tests.fixtures.make import TRAINED
from tests.tiny import tiny_settings

VOCABULARY = 1600  # large enough for the search by blocks in `_top`
LENGTHS = [3, 11, 5, 5, 2, 7]
LONG = [3, 5, 34]  # the last sentence outgrows its first buffers
UNTRAINED = [7, 8]  # token ids
DEFAULTS = Decoding(beam=3, length_penalty=0.6, max_extra_length=4)


@pytest.fixture(scope="module")
def transformer(tmp_path_factory) -> Transformer:
    """A CPU model with random weights whose translations have different lengths."""
    content = tiny_settings(tmp_path_factory.mktemp("none"))
    content["model"] |= {"encoder_layers": 1, "decoder_layers": 1}
    content["tokenizer"]["vocabulary_size"] = VOCABULARY
    model = new_transformer(validate(content, {}, "tiny"))
    model.initialize(3)
    with torch.no_grad():
        model.embedding[EOS_ID] += 0.5 * model.embedding[9]
    return model.eval()


def parts(lengths: list[int] = LENGTHS, *, prefixes: bool = False) -> list[SearchInput]:
    random = np.random.default_rng(1)
    ids = [random.integers(9, VOCABULARY, length).tolist() for length in lengths]
    given = [[20, 21], [], [22], [23, 24, 25]] if prefixes else [[]]
    return [SearchInput(tokens, given[i % len(given)]) for i, tokens in enumerate(ids)]


def found_by(
    transformers: list[Transformer], some: list[SearchInput], options: SearchOptions
) -> list[list[Hypothesis]]:
    each = BatchedSearch(transformers, DEFAULTS, reads_as=tuple, untrained=UNTRAINED)
    return each.find(some, options)


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.log_probability for each in one] == pytest.approx(
            [each.log_probability for each in other], abs=1e-3
        )


def assert_no_step_waited(gpu) -> None:
    """Fails if a step waits for the GPU other than by the event that marks its candidates."""
    inside = [wait for wait in gpu.waits if "search_step_by_step" in wait.callers]
    assert any(wait.is_explicit for wait in inside)
    waits = sorted({str(wait) for wait in inside if not wait.is_explicit})
    assert not waits, "\n".join(waits)


SEARCHES = {
    "beam": SearchOptions(),
    "greedy": SearchOptions(beam=1),
    "n-best": SearchOptions(n_best=3),
    "no-repeat": SearchOptions(no_repeat_ngram=2),
    "small-batches": SearchOptions(batch_tokens=120),  # two batches take turns
}


CASES = [(name, "fp32") for name in (*SEARCHES, "long", "prefix", "ensemble")]
CASES += [(name, "bf16") for name in ("beam", "no-repeat", "prefix", "ensemble")]


@pytest.mark.parametrize(("name", "precision"), CASES)
def test_a_search_finds_what_a_cpu_finds_and_no_step_waits(gpu, transformer, name, precision):
    options = SEARCHES.get(name, SearchOptions())
    some = parts(LONG if name == "long" else LENGTHS, prefixes=name == "prefix")
    models = [transformer]
    if name == "ensemble":
        models.append(copy.deepcopy(transformer))
        models[1].initialize(4)
    dtype = torch.float32 if precision == "fp32" else torch.bfloat16
    there = [copy.deepcopy(each).to("cuda", dtype) for each in models]
    found = found_by(there, some, options)
    assert_no_step_waited(gpu)
    if precision == "fp32":
        assert_same(found, found_by(models, some, options))
    for part, hypotheses in zip(some, found, strict=True):
        assert hypotheses
        for each in hypotheses:
            assert each.tokens[: len(part.prefix)] == part.prefix
            assert not set(UNTRAINED) & set(each.tokens)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_growing_caches_find_what_a_cpu_finds_and_no_step_waits(gpu, transformer, precision):
    """The microscope and the alternatives of `nmt serve` use this stepper."""
    src = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor([*part.tokens, EOS_ID]) for part in parts()], batch_first=True
    )

    def searched(model: Transformer) -> list[list[Hypothesis]]:
        device = model.embedding.device
        with torch.inference_mode():
            steps = Stepper(model, src.to(device), 3, max(LENGTHS) + 4)
            limits = [length + 4 for length in LENGTHS]
            return search(steps, limits, beam=3, alpha=0.6, device=device)

    there = copy.deepcopy(transformer)
    if precision == "bf16":
        searched(there.to("cuda", torch.bfloat16))
    else:
        assert_same(searched(there.to("cuda")), searched(transformer))
    assert_no_step_waited(gpu)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_samples_scores_and_alignments_are_a_cpus(gpu, transformer, precision):
    dtype = torch.float32 if precision == "fp32" else torch.bfloat16
    there = copy.deepcopy(transformer).to("cuda", dtype)
    options = SearchOptions(sample=True, n_best=3, temperature=0.7, top_p=0.9, seed=1)
    pairs = [
        Pair(np.array([*p.tokens, EOS_ID]), np.array([*p.tokens[::-1], EOS_ID])) for p in parts()
    ]
    samples = found_by([there], parts(), options)
    scores = log_probabilities(there, pairs)
    weights = cross_attention([there], pairs)
    if precision == "bf16":
        assert np.concatenate(scores).dtype == np.float64
        return
    assert_same(samples, found_by([transformer], parts(), options))
    for found, expected in (
        (scores, log_probabilities(transformer, pairs)),
        (weights, cross_attention([transformer], pairs)),
    ):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)


TEXTS = ["The man reads a book.", "", "A child sees the dog."]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_library_s_calls(gpu, precision):
    """Loads a model directory and translates text, like `nmt translate --device cuda`."""
    path = TRAINED / "run"
    there = Translator.load(path, device="cuda", precision=precision)
    here = Translator.load(path, device="cpu", precision="fp32")
    calls = [
        lambda each: [t.text for t in each.translate(TEXTS, align=True, attention=True)],
        lambda each: [t.text for t in each.translate(TEXTS, prefix="Der", n_best=2)],
        lambda each: [t.text for t in each.translate(TEXTS, mbr=2)],
        lambda each: [token.token for token in each.next_tokens(TEXTS[0], "Der", k=2)],
        lambda each: [round(s.log_probability, 2) for s in each.score(TEXTS, TEXTS)],
    ]
    for call in calls:
        found, expected = call(there), call(here)
        assert found == expected if precision == "fp32" else len(found) == len(expected)
