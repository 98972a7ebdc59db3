"""`nmt translate`: text in, text out."""

import argparse
from pathlib import Path

from nmt.cli.flags import add_decoding, add_model, add_sampling, positive, search_options
from nmt.cli.parser import Command
from nmt.cli.terminal import say


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--input", type=Path, metavar="F",
                        help="text, plain or compressed (default: standard input)")  # fmt: skip
    parser.add_argument("--output", type=Path, metavar="F",
                        help="compressed if named .gz, .bz2 or .xz; appears when it is complete "
                             "(default: standard output)")  # fmt: skip
    parser.add_argument("--format", choices=("text", "jsonl", "html", "xml"), default="text",
                        help="of what is written. jsonl: an object for each line, with scores and "
                             "tokens. html, xml: the input is a document in it, its tags are kept "
                             "and its text is translated sentence by sentence "
                             "(default: text)")  # fmt: skip
    parser.add_argument("--document", action="store_true",
                        help="lines are paragraphs: translate them sentence by sentence, keep "
                             "their indentation")  # fmt: skip
    parser.add_argument("--shard", type=_shard, metavar="I/N",
                        help="the I-th of N parts of the input's lines, I from 1; the outputs "
                             "of all, one after the other, are that of the whole")  # fmt: skip
    parser.add_argument("--n-best", type=positive, metavar="N",
                        help="N lines a sentence: index, score, text, tab-separated (default: the "
                             "best text alone); the score is the log-probability divided by the "
                             "length penalty, where nmt score prints it undivided; of an empty "
                             "line it is 0")  # fmt: skip
    parser.add_argument("--ensemble", type=Path, nargs="+", metavar="MODEL",
                        help="more models of the same vocabulary: at each step the probabilities "
                             "of all are averaged")  # fmt: skip
    parser.add_argument("--prefix", default="", metavar="TEXT",
                        help="how every translation begins; best whole words")  # fmt: skip
    parser.add_argument("--prefix-file", type=Path, metavar="F",
                        help="for each line how its translation begins; empty: as the model "
                             "likes")  # fmt: skip
    parser.add_argument("--glossary", type=Path, metavar="F",
                        help="file with a source term, a tab and its target term on each line: "
                             "the translation of a line with the source term contains the target "
                             "term, as it is written; a warning names each line and term for which "
                             "this was impossible")  # fmt: skip
    parser.add_argument("--no-repeat-ngram", type=positive, metavar="N",
                        help="no N tokens (pieces of words) in a row come twice in a "
                             "translation")  # fmt: skip
    parser.add_argument("--alignment", type=Path, metavar="F",
                        help="file for word alignments, a line for each line of output: 0-0 1-2 "
                             "links the first words, and the second to the third; from the last "
                             "decoder layer's cross-attention; with --format jsonl in the objects, "
                             "too, or with - as F there alone")  # fmt: skip
    parser.add_argument("--shortlist", action="store_true",
                        help="compute with likely pieces of the vocabulary alone, which can be "
                             "faster on a CPU and changes some translations; of a model whose "
                             "data were prepared with data.shortlist")  # fmt: skip
    add_sampling(parser)
    parser.add_argument("--strict", action="store_true",
                        help="stop at invalid UTF-8 (default: replace it and warn)")  # fmt: skip
    add_decoding(parser)


def _run(arguments: argparse.Namespace) -> None:
    from nmt.cpu_memory import keep_freed_memory
    from nmt.lines.translate import LineOptions, run_translate

    keep_freed_memory()
    run_translate(
        arguments.model,
        input=arguments.input,
        output=arguments.output,
        options=LineOptions(
            search=search_options(arguments),
            numbered=arguments.n_best is not None,
            strict=arguments.strict,
            prefix=arguments.prefix,
            format=arguments.format,
            document=arguments.document,
        ),
        device=arguments.device,
        precision=arguments.precision,
        note=say,
        ensemble=arguments.ensemble or (),
        prefix_file=arguments.prefix_file,
        alignment=arguments.alignment,
        shard=arguments.shard,
        shortlist=arguments.shortlist,
    )


def _shard(text: str) -> tuple[int, int]:
    i, _, n = text.partition("/")
    if not (i.isdecimal() and n.isdecimal() and len(n) < 10 and 1 <= int(i) <= int(n)):
        raise argparse.ArgumentTypeError(f"must be such as 1/8, at most 8/8, found {text}")
    return int(i), int(n)


COMMAND = Command(
    "translate",
    "translate text, one line out for each line in",
    "echo 'The man reads a book.' | nmt translate runs/demo",
    _add_flags,
    _run,
    if_out_of_memory="lower --batch-tokens",
)
