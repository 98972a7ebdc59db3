"""A run that memorizes 20 sentences: translations, validations, TensorBoard."""

import math
import random
from itertools import permutations
from pathlib import Path

import pytest
import torch
from sacrebleu.metrics import BLEU
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt.cli import main
from nmt.config import Config
from nmt.data.prepare import prepare
from nmt.data.tokenizer import Tokenizer
from nmt.evaluation.attention_png import write_png
from nmt.model.special_ids import EOS_ID
from nmt.training import validation
from nmt.training.run_log import read_log
from nmt.translator import Translator
from tests.conftest import make_settings
from tests.model.paper import PaperTransformer
from tests.training.runs import run

NOUNS = {"the dog": "狗", "the cat": "猫", "the man": "男人", "the old woman": "老妇人"}
VERBS = {"sees": "看见", "hears": "听到", "does not like": "不喜欢"}
SENTENCES = [
    (f"{subject} {verb} {other}.", f"{NOUNS[subject]}{VERBS[verb]}{NOUNS[other]}。")
    for subject, other in permutations(NOUNS, 2)
    for verb in VERBS
]
random.Random(1).shuffle(SENTENCES)
LEARNT, UNSEEN = SENTENCES[:20], SENTENCES[20:29]


def corpus(folder: Path, name: str, pairs: list[tuple[str, str]]) -> list[dict]:
    """Writes the pairs to two text files; returns the settings of the corpus."""
    paths = [folder / f"{name}.{language}" for language in ("en", "zh")]
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [{"text": {"source": str(paths[0]), "target": str(paths[1])}}]


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Config:
    """The configuration of a run with 100 steps and validations on unseen pairs at steps 60 and
    100.
    """
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("learning")
    changes = {
        "data__train": corpus(folder, "train", LEARNT),
        "data__validation": corpus(folder, "validation", UNSEEN),
        "data__test": [], "data__target_language": "zh", "tokenizer__vocabulary_size": 300,
        "model__d_model": 64, "model__d_ff": 128, "model__dropout": 0.0,
        "training__max_steps": 100, "training__warmup_steps": 20,
        "training__learning_rate_factor": 0.5, "training__validate_every": 60,
        "training__checkpoint_every": 20, "training__label_smoothing": 0.2,
        "training__log_every": 30,
    }  # fmt: skip
    config = make_settings(folder, folder, **changes)
    prepare(config, note=lambda line: None, processes=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validation, "write_png", write_png)  # undoes `one_pixel`
        run(config)
    return config


@pytest.fixture
def trained(config: Config) -> Path:
    """The run directory."""
    return Path(config.training.run_directory)


def events(trained: Path, name: str | None) -> list[dict]:
    return [line for line in read_log(trained) if line.get("event") == name]


def test_what_was_learnt_by_heart_comes_out_of_translate(trained: Path, tmp_path: Path):
    sources, references = (list(side) for side in zip(*LEARNT, strict=True))
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in sources))
    arguments = ["--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    assert main(["translate", str(trained), *arguments]) == 0
    found = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    assert BLEU(trg_lang="zh").corpus_score(found, [references]).score > 95


@pytest.mark.parametrize("place", [0, 1, "model"])
def test_a_validation_is_what_can_be_computed_by_hand(trained: Path, config: Config, place):
    """Compares loss and perplexity with the paper's equations, and BLEU with sacreBLEU."""
    if place == "model":
        [event] = events(trained, "model")
        facts, folder = event["validation"], trained / "model"
    else:
        facts = events(trained, "validation")[place]
        assert facts["step"] == (60, 100)[place]
        folder = trained / f"checkpoints/step-{facts['step']:08d}"
    tokenizer = Tokenizer.load(folder / "tokenizer.model")
    pairs = [tuple([*tokenizer.encode(text), EOS_ID] for text in pair) for pair in UNSEEN]
    paper = PaperTransformer(load_file(folder / "model.safetensors"), config.model)
    smoothed, nll = (sum.item() for sum in paper.loss(pairs, 0.2))
    tokens = sum(len(target) for _, target in pairs)
    assert facts["loss"] == pytest.approx(smoothed / tokens, rel=1e-4)
    assert facts["nll"] == pytest.approx(nll / tokens, rel=1e-4)
    assert facts["ppl"] == pytest.approx(math.exp(nll / tokens), rel=1e-4)
    sources, references = zip(*UNSEEN, strict=True)
    found = [each.text for each in Translator.load(folder, device="cpu").translate(sources)]
    bleu = BLEU(trg_lang="zh")
    assert facts["bleu"] == bleu.corpus_score(found, [references]).score
    assert 5 < facts["bleu"] < 95  # some n-grams match
    assert facts["bleu_signature"] == str(bleu.get_signature())
    assert "tok:zh" in facts["bleu_signature"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised by TensorBoard's dependencies
def test_tensorboard_shows_the_values_of_the_log(trained: Path, config: Config):
    board = EventAccumulator(str(trained / "tensorboard"), size_guidance={"scalars": 0})
    board.Reload()
    expected = {
        "training": ("loss", "nll", "learning_rate", "gradient_norm"),
        "machine": ("tokens_per_second", "elapsed_s"),
        "validation": ("loss", "nll", "ppl", "bleu"),
    }
    shown = {f"{group}/{name}" for group, names in expected.items() for name in names}
    assert shown <= set(board.Tags()["scalars"])
    for group, names in expected.items():
        lines = events(trained, group if group == "validation" else None)
        for name in names:
            values = {event.step: event.value for event in board.Scalars(f"{group}/{name}")}
            logged = {line["step"]: pytest.approx(line[name], rel=1e-6) for line in lines}
            assert values == logged, name
    assert [line["step"] for line in events(trained, None)] == [1, 30, 60, 90, 100]
    pictures = board.Images("validation/attention")
    assert [event.step for event in pictures] == [60, 100]
    assert all(event.width > 100 for event in pictures)
    [outcome] = events(trained, "model")
    finished = EventAccumulator(str(trained / "tensorboard" / "outcome-100"))
    finished.Reload()
    [bleu] = finished.Scalars("model/bleu")
    assert (bleu.step, bleu.value) == (100, pytest.approx(outcome["validation"]["bleu"]))
    last = board.Tensors("validation/samples/text_summary")[-1]
    table = last.tensor_proto.string_val[0].decode().splitlines()[2:]
    translations = Translator.load(trained / "checkpoints/step-00000100", device="cpu").translate(
        [source for source, _ in UNSEEN]
    )
    assert last.step == 100
    rows = [
        f"| {source} | {reference} | {best.text} |"
        for (source, reference), best in zip(UNSEEN, translations, strict=True)
    ]
    assert table == rows[::2]  # five of the nine, evenly spaced
