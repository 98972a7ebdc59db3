"""`nmt translate`: translates text."""

import argparse
from pathlib import Path
from typing import get_args

from nmt.cli.flags import add_decoding, add_model, add_sampling, positive, search_options
from nmt.cli.parser import Command
from nmt.cli.terminal import say
from nmt.lines.formats import ABOUT_FORMATS, Format


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_model(parser, exported=True)
    parser.add_argument("--input", type=Path, metavar="F",
                        help="file to translate, plain or compressed (default: "
                             "standard input)")  # fmt: skip
    parser.add_argument("--output", type=Path, metavar="F",
                        help="output file, compressed if named .gz, .bz2 or .xz; written only "
                             "when complete (default: standard output)")  # fmt: skip
    parser.add_argument("--format", choices=get_args(Format), default="text",
                        help=f"output format (default: text). {ABOUT_FORMATS}")  # fmt: skip
    parser.add_argument("--document", action="store_true",
                        help="treat lines as paragraphs: translate them sentence by sentence and "
                             "keep their indentation")  # fmt: skip
    parser.add_argument("--shard", type=_shard, metavar="I/N",
                        help="translate only part I of the N parts of the input, "
                             "counted from 1; the N outputs, concatenated in order, "
                             "are the output for the whole input")  # fmt: skip
    parser.add_argument("--n-best", type=positive, metavar="N",
                        help="print N lines per sentence, each with an index, a "
                             "score and a text, separated by tabs; the score is the "
                             "log-probability divided by the length penalty, or 0 "
                             "for an empty line (default: print only the best text)")  # fmt: skip
    parser.add_argument("--ensemble", type=Path, nargs="+", metavar="MODEL",
                        help="further models with the same vocabulary; the probabilities of all "
                             "models are averaged at each step")  # fmt: skip
    parser.add_argument("--prefix", default="", metavar="TEXT",
                        help="prefix of every translation, preferably whole words")  # fmt: skip
    parser.add_argument("--prefix-file", type=Path, metavar="F",
                        help="file with one prefix per input line, for its "
                             "translation; a prefix may be empty")  # fmt: skip
    parser.add_argument("--glossary", type=Path, metavar="F",
                        help="file with a source term, a tab and a target term on "
                             "each line; if an input line contains the source term, "
                             "its translation contains the target term exactly as "
                             "given; a warning names each line and term for which "
                             "this was impossible")  # fmt: skip
    parser.add_argument("--no-repeat-ngram", type=positive, metavar="N",
                        help="prevent sequences of N tokens from occurring twice in "
                             "a translation")  # fmt: skip
    parser.add_argument("--alignment", type=Path, metavar="F",
                        help="file for word alignments, one line per output line: "
                             "0-0 1-2 links the first source word to the first "
                             "target word, and the second to the third. Alignments "
                             "are computed from cross-attention in the last decoder "
                             "layer. With --format jsonl, the objects also contain "
                             "them; F may be - to write no file")  # fmt: skip
    parser.add_argument("--shortlist", action="store_true",
                        help="compute only those tokens of the vocabulary that are "
                             "likely for the sources, which can be faster on a CPU "
                             "but changes some translations; needs data prepared "
                             "with data.shortlist")  # fmt: skip
    add_sampling(parser)
    parser.add_argument("--strict", action="store_true",
                        help="stop at invalid UTF-8 (default: warn and replace it)")  # fmt: skip
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
        raise argparse.ArgumentTypeError(f"must be I/N with I from 1 to N, such as 2/8, not {text}")
    return int(i), int(n)


COMMAND = Command(
    "translate",
    "translate text line by line",
    "echo 'The man reads a book.' | nmt translate runs/demo",
    _add_flags,
    _run,
    if_out_of_memory="Lower --batch-tokens.",
)
