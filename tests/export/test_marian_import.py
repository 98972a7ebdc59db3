"""`nmt import` compared with transformers, on random Marian checkpoints."""

import json
import random
import shutil
from pathlib import Path

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file, save_file

from nmt.cli import main
from nmt.data.layout import one_per_row
from nmt.decoding.score import log_probabilities
from nmt.demo_language.corpus import demo_pairs
from nmt.errors import ArgumentError, InputError, NoModelError
from nmt.export import check
from nmt.export.marian_import import import_marian
from nmt.runs.model_directory import load_model
from nmt.training.loss import TransformerLoss
from nmt.translator import SearchOptions, Translator

transformers = pytest.importorskip("transformers")
pytest.importorskip("sacremoses")

SENTENCES = [(pair.source, pair.target) for pair in demo_pairs(400, 1, "train")]
UNSEEN = [
    *SENTENCES[:40], ("A naïve test: 3½ “quoted” words…", "Ein naïver Test: 3½ „Wörter“…"),
    ("  spaces   inside ", " Leerzeichen  darin "), ("x", "y"), ("日本", "中文"),
]  # fmt: skip


def quiet(line: str) -> None: ...


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random checkpoint with the files of OPUS-MT's checkpoints."""
    folder = tmp_path_factory.mktemp("marian") / "opus-mt-en-de"
    folder.mkdir()
    pieces: set[str] = set()
    for side, name in enumerate(("source", "target")):
        text = folder / f"{name}.txt"
        text.write_text("\n".join(pair[side] for pair in SENTENCES))
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=str(folder / name), vocab_size=240, minloglevel=2,
            model_type="unigram", hard_vocab_limit=False,
        )  # fmt: skip
        (folder / f"{name}.model").rename(folder / f"{name}.spm")
        model = sentencepiece.SentencePieceProcessor(str(folder / f"{name}.spm"))
        pieces |= {model.id_to_piece(i) for i in range(3, model.vocab_size())}
    order = sorted(pieces)
    random.Random(1).shuffle(order)
    names = ["</s>", "<unk>", *order, "<pad>"]
    vocabulary = {name: i for i, name in enumerate(names)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text('{"source_lang": "en", "target_lang": "de"}')
    pad = vocabulary["<pad>"]
    torch.manual_seed(1)
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=len(names), d_model=32, encoder_layers=2, decoder_layers=3,
            encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
            decoder_ffn_dim=48, activation_function="swish", scale_embedding=True, dropout=0.0,
            eos_token_id=0, pad_token_id=pad, decoder_start_token_id=pad, forced_eos_token_id=0,
            max_position_embeddings=128, bad_words_ids=[[pad]], num_beams=3,
        )
    )  # fmt: skip
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter) * 0.15)
        model.final_logits_bias.normal_()
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def imported(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported") / "model"
    assert main(["import", str(checkpoint), "--output", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def theirs(checkpoint: Path):
    tokenizer = transformers.MarianTokenizer.from_pretrained(checkpoint)
    return tokenizer, transformers.MarianMTModel.from_pretrained(checkpoint).eval()


@pytest.fixture(scope="module")
def ours(imported: Path) -> Translator:
    return Translator.load(imported, precision="fp32", device="cpu")


def their_pieces(tokenizer, ids: list[int]) -> list[str]:
    return [each if each != "<pad>" else "<s>" for each in tokenizer.convert_ids_to_tokens(ids)]


def test_both_sides_are_split_into_the_pieces_of_marian(ours: Translator, theirs):
    tokenizer = theirs[0]
    for source, target in UNSEEN:
        [pair] = ours.tokenizer.encode_pairs([source], [target])
        expected = tokenizer(source).input_ids, tokenizer(text_target=target).input_ids
        for found, wanted in zip(pair, expected, strict=True):
            assert ours.tokenizer.pieces(found) == their_pieces(tokenizer, wanted)
    target = [pair[1] for pair in UNSEEN]
    assert ours.tokenizer.encode_targets(target) != ours.tokenizer.encode_batch(target)


def logits_of(model, ours: Translator, tokenizer, source: str, target: str):
    """Returns the logits of transformers, (T, V), with the tokens in the order of nmt's ids."""
    encoded = tokenizer(source, text_target=target, return_tensors="pt")
    logits = model(input_ids=encoded.input_ids, labels=encoded.labels).logits[0]
    names = ours.tokenizer.pieces(range(4, ours.tokenizer.vocabulary_size))
    return logits[:, tokenizer.convert_tokens_to_ids(["</s>", "<unk>", *names])]


def test_logits_and_scores_are_those_of_marian(ours: Translator, theirs):
    tokenizer, model = theirs
    for source, target in UNSEEN:
        pair = ours.tokenizer.encode_pairs([source], [target])
        batch = one_per_row(pair)
        with torch.inference_mode():
            expected = logits_of(model, ours, tokenizer, source, target)
            hidden = ours.transformer(batch.src, batch.tgt_in)
            found = ours.transformer.logits(hidden)[0, :, 2:]
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    [scores] = log_probabilities(ours.transformer, pair)
    logits = ours.transformer.logits(ours.transformer(batch.src, batch.tgt_in))[0]
    wanted = logits.log_softmax(-1).gather(1, batch.tgt_out[0, :, None])[:, 0]
    torch.testing.assert_close(torch.tensor(scores), wanted.detach(), atol=1e-4, rtol=0)


def test_a_prefix_is_split_as_a_target(ours: Translator, theirs):
    tokenizer, model = theirs
    for source, target in UNSEEN[:8]:
        with torch.inference_mode():
            after = logits_of(model, ours, tokenizer, source, target)[-1]
            after[1] = -torch.inf  # UNK is never generated
        expected = [2 + i for i in after.topk(5).indices.tolist()]
        assert [each.token for each in ours.next_tokens(source, target, k=5)] == expected
    with pytest.raises(ArgumentError, match="prefix 中文 contains a character that is not in"):
        ours.translate("x", prefix="中文")


def test_a_term_that_cannot_be_generated_does_not_disturb_the_others(ours: Translator):
    text, possible = "The man reads a book.", {"book": "der Mann"}
    alone = ours.translate(text, glossary=possible)
    assert not alone.unmet_terms
    both = ours.translate(text, glossary=possible | {"man": "中文"})
    assert both.unmet_terms == [("man", "中文")] and both.text == alone.text


def test_scores_in_bf16_include_the_bias(imported: Path, ours: Translator):
    """Without the bias, the mean difference is above 0.5."""
    low, texts = Translator.load(imported, precision="bf16", device="cpu"), UNSEEN[:20]
    pairs = ours.tokenizer.encode_pairs(*zip(*texts, strict=True))
    found, exact = (
        torch.cat([torch.tensor(each) for each in log_probabilities(model.transformer, pairs)])
        for model in (low, ours)
    )
    assert (found - exact).abs().mean() < 0.1


def test_greedy_translations_are_those_of_marian(ours: Translator, theirs):
    tokenizer, model = theirs
    for source, _ in UNSEEN:
        encoded = tokenizer(source, return_tensors="pt")
        limit = encoded.input_ids.shape[1] - 1 + ours.config.decoding.max_extra_length
        found = model.generate(
            **encoded, num_beams=1, do_sample=False, max_new_tokens=limit, forced_eos_token_id=None,
            suppress_tokens=[tokenizer.unk_token_id],
        )  # fmt: skip
        expected = tokenizer.decode(found[0], skip_special_tokens=True)
        translated = ours.translate(source, SearchOptions(beam=1)).text
        assert translated == ours.tokenizer.normalize(expected)


def test_a_step_of_fine_tuning_is_that_of_marian(imported: Path, checkpoint: Path):
    """Both models take a step of gradient descent.

    Unlike transformers, nmt also trains the bias and the embedding of the first decoder input.
    """
    tokenizer = transformers.MarianTokenizer.from_pretrained(checkpoint)
    model = transformers.MarianMTModel.from_pretrained(checkpoint).eval()
    bias = model.final_logits_bias
    del model.final_logits_bias
    model.final_logits_bias = torch.nn.Parameter(bias)
    for side in (model.model.encoder, model.model.decoder):
        side.embed_tokens.padding_idx = None
    ours = Translator.load(imported, precision="fp32", device="cpu")
    transformer = load_model(imported, device=ours.device).transformer
    source, target = SENTENCES[7]
    batch = one_per_row(ours.tokenizer.encode_pairs([source], [target]))
    loss, _ = TransformerLoss(transformer, 0.0)(batch)
    encoded = tokenizer(source, text_target=target, return_tensors="pt")
    mean = model(input_ids=encoded.input_ids, labels=encoded.labels).loss
    expected = mean * len(batch.tgt_out[0])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    before = logits_of(model, ours, tokenizer, source, target)
    loss.backward()
    expected.backward()
    with torch.no_grad():
        for parameter in [*transformer.parameters(), *model.parameters()]:
            if parameter.grad is not None:
                parameter -= 0.01 * parameter.grad
        after = logits_of(model, ours, tokenizer, source, target)
        found = transformer.logits(transformer(batch.src, batch.tgt_in))[0, :, 2:]
    assert (after - before).abs().max() > 0.01
    torch.testing.assert_close(found, after, atol=1e-4, rtol=0)


def test_an_imported_model_is_exported(imported: Path, ours: Translator, tmp_path: Path):
    """The command itself compares 40 translations and their scores with the original."""
    output = tmp_path / "ct2"
    assert main(["export", str(imported), "--format", "ctranslate2", "--output", str(output)]) == 0
    texts, greedy = [source for source, _ in UNSEEN], SearchOptions(beam=1)
    found = Translator.load(output).translate(texts, greedy)
    assert [each.text for each in found] == [each.text for each in ours.translate(texts, greedy)]


def test_an_export_is_compared_on_texts_that_are_not_translated_in_parts(
    ours: Translator, monkeypatch
):
    """Few texts fit into 4 tokens, and random subwords are encoded as more tokens."""
    monkeypatch.setattr(ours, "max_part", 4)
    samples = check.samples_of(ours)
    assert samples and all(len(sample.source) <= 4 for sample in samples)


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("config.json", {"activation_function": "gelu"}, "activation_function.*does not support"),
        ("config.json", {"normalize_before": True}, "normalize_before"),
        ("config.json", {"share_encoder_decoder_embeddings": False}, "share_encoder_decoder"),
        ("config.json", {"decoder_ffn_dim": 64}, "decoder_ffn_dim is 64"),
        ("config.json", {"encoder_attention_heads": 0}, "encoder_attention_heads: .*greater than"),
        ("config.json", {"decoder_start_token_id": 2}, "of <pad> is .*decoder_start_token_id"),
        ("config.json", {"eos_token_id": 2}, "of </s> is 0, but eos_token_id .* is 2"),
        ("config.json", {"vocab_size": 10**12, "decoder_vocab_size": 10**12}, "1(,000){4} tokens"),
        ("config.json", "[1]", "config.json contains no settings"),
        ("generation_config.json", {"num_beams": 0}, "num_beams: .*greater than"),
        ("generation_config.json", "{", "generation_config.json is not valid JSON"),
        ("config.json", {"vocab_size": 7, "decoder_vocab_size": 7}, "must contain 7 tokens"),
        ("config.json", {"d_model": 64}, "does not match config.json"),
        ("config.json", {"d_model": 65_536}, "does not match config.json"),  # 50 GB per layer
        ("config.json", {"model_type": "bart"}, "model_type"),
        ("config.json", "{", "not valid JSON"),
        ("vocab.json", "[1]", "does not map tokens to ids"),
        ("vocab.json", {">>deu<<": 4}, "vocab.json must contain"),
        ("source.spm", "damaged", "source.spm and target.spm cannot be used: it is damaged"),
        ("model.safetensors", "damaged", "model.safetensors is damaged"),
        ("model.safetensors", None, "pytorch_model.bin"),
        ("target.spm", None, "target.spm does not exist"),
    ],
)  # fmt: skip
def test_other_and_damaged_checkpoints_are_refused(
    checkpoint: Path, tmp_path: Path, name: str, change, expected: str
):
    folder, output = tmp_path / "opus-mt-en-de", tmp_path / "output"
    shutil.copytree(checkpoint, folder)
    if change is None:
        (folder / name).unlink()
    elif isinstance(change, str):
        (folder / name).write_text(change)
    else:
        content = json.loads((folder / name).read_text()) | change
        (folder / name).write_text(json.dumps(content))
    with pytest.raises((InputError, NoModelError), match=expected):
        import_marian(folder, output, note=quiet)
    assert not output.exists()


@pytest.mark.parametrize(
    ("changed", "expected"),
    [(lambda weight: weight.int(), "not floating-point"), (lambda weight: weight.sum(), "shape")],
)
def test_weights_of_another_type_or_shape_are_refused(
    checkpoint: Path, tmp_path: Path, changed, expected: str
):
    folder = tmp_path / "opus-mt-en-de"
    shutil.copytree(checkpoint, folder)
    weights = load_file(folder / "model.safetensors")
    name = "final_logits_bias"
    save_file(weights | {name: changed(weights[name])}, folder / "model.safetensors")
    with pytest.raises(NoModelError, match=f"{name} .*{expected}"):
        import_marian(folder, tmp_path / "output", note=quiet)


def test_all_problems_of_the_settings_are_reported_at_once(checkpoint: Path, tmp_path: Path):
    folder = tmp_path / "opus-mt-en-de"
    shutil.copytree(checkpoint, folder)
    content = json.loads((folder / "config.json").read_text())
    content |= {"normalize_before": True, "decoder_ffn_dim": 64, "activation_function": "gelu"}
    (folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(InputError) as raised:
        import_marian(folder, tmp_path / "output", note=quiet)
    for name in ("normalize_before", "decoder_ffn_dim", "activation_function"):
        assert sum(name in problem for problem in raised.value.problems) == 1


@pytest.mark.parametrize(("in_config", "in_generation", "beam"), [(3, None, 3), (3, 6, 6)])
def test_the_beam_size_is_that_of_the_checkpoint(
    checkpoint: Path, tmp_path: Path, in_config: int, in_generation: int | None, beam: int
):
    """transformers moves the beam size to generation_config.json when it saves a checkpoint."""
    folder, output = tmp_path / "opus-mt-en-de", tmp_path / "output"
    shutil.copytree(checkpoint, folder)
    for name, value in (
        ("config.json", in_config), ("generation_config.json", in_generation),
    ):  # fmt: skip
        content = json.loads((folder / name).read_text()) | {"num_beams": value}
        (folder / name).write_text(json.dumps(content))
    import_marian(folder, output, note=quiet)
    assert load_model(output, device=torch.device("cpu")).config.decoding.beam == beam


def test_the_embedding_may_have_another_name(checkpoint: Path, imported: Path, tmp_path: Path):
    """Some files contain a tied matrix under another of its names."""
    folder, output = tmp_path / "opus-mt-en-de", tmp_path / "output"
    shutil.copytree(checkpoint, folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.decoder.embed_tokens.weight"] = tensors.pop("model.shared.weight")
    save_file(tensors, folder / "model.safetensors")
    import_marian(folder, output, note=quiet)
    found, expected = (load_file(each / "model.safetensors") for each in (output, imported))
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_languages_are_required_and_several_targets_refused(checkpoint: Path, tmp_path: Path):
    folder = tmp_path / "mine"
    shutil.copytree(checkpoint, folder)
    with pytest.raises(InputError, match=r"languages of .*mine are unknown"):
        import_marian(folder, tmp_path / "output", note=quiet)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    piece = next(piece for piece, i in vocabulary.items() if i == 9)
    vocabulary[">>deu<<"] = vocabulary.pop(piece)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    languages = {"source_language": "en", "target_language": "de"}
    with pytest.raises(InputError, match="several target languages"):
        import_marian(folder, tmp_path / "output", **languages, note=quiet)
