"""Defines the command `nmt translate`, which translates text."""

import argparse
from pathlib import Path
from typing import get_args

from nmt.cli.flags import (
    add_decoding,
    add_model,
    add_sampling,
    beam_size,
    output_file,
    positive,
    search_options,
)
from nmt.cli.parser import Command
from nmt.cli.terminal import say
from nmt.errors import ArgumentError
from nmt.lines.formats import ABOUT_FORMATS, Format


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_model(parser, exported=True)
    parser.add_argument("--input", type=Path, metavar="F",
                        help="file to translate, plain or compressed (default: "
                             "standard input)")  # fmt: skip
    parser.add_argument("--output", type=output_file, metavar="F",
                        help="output file, compressed if its name ends in .gz, .bz2 or .xz; "
                             "created only when the translation is complete (default: standard "
                             "output)")  # fmt: skip
    parser.add_argument("--format", choices=get_args(Format), default="text",
                        help=f"output format (default: text). {ABOUT_FORMATS}")  # fmt: skip
    parser.add_argument("--document", action="store_true",
                        help="treat each line as a paragraph, which is translated sentence by "
                             "sentence and keeps its indentation")  # fmt: skip
    parser.add_argument("--shard", type=_shard, metavar="I/N",
                        help="divide the input into N parts, and translate only part I "
                             "(counted from 1); the outputs for parts 1 to N, "
                             "concatenated, are the output for the whole input")  # fmt: skip
    parser.add_argument("--n-best", type=beam_size, metavar="N",
                        help="print N lines per sentence, each with an index, a "
                             "score and a text, separated by tabs; the score is the "
                             "log-probability divided by the length penalty, or 0 "
                             "for an empty line (default: print only the best text)")  # fmt: skip
    parser.add_argument("--ensemble", type=Path, nargs="+", metavar="MODEL",
                        help="additional models with the same vocabulary; the probabilities of all "
                             "models are averaged at each step")  # fmt: skip
    parser.add_argument("--prefix", default="", metavar="TEXT",
                        help="text with which every translation must begin, preferably whole "
                             "words")  # fmt: skip
    parser.add_argument("--prefix-file", type=Path, metavar="F",
                        help="file with one prefix per input line, with which the "
                             "translation of that line must begin; a prefix may be "
                             "empty")  # fmt: skip
    parser.add_argument("--glossary", type=Path, metavar="F",
                        help="file with a source term, a tab and a target term on "
                             "each line; if an input line contains the source term, "
                             "the translation of that line contains the target term "
                             "exactly as given; a warning names each line and term for "
                             "which this was impossible")  # fmt: skip
    parser.add_argument("--no-repeat-ngram", type=positive, metavar="N",
                        help="prevent sequences of N tokens from occurring twice in "
                             "a translation")  # fmt: skip
    parser.add_argument("--alignment", type=_links_file, metavar="F",
                        help="output file for word alignments, one line per output "
                             "line; for example, 0-0 1-2 aligns the first source word "
                             "with the first target word, and the second source word "
                             "with the third target word. Alignments are computed from "
                             "the cross-attention of the last decoder layer. With "
                             "--format jsonl, the JSON objects also contain the "
                             "alignments, and F may be - to write no file")  # fmt: skip
    parser.add_argument("--shortlist", action="store_true",
                        help="generate only tokens that are likely for the sources, which "
                             "can be faster on a CPU but changes some translations; the "
                             "model's data must have been prepared with "
                             "data.shortlist")  # fmt: skip
    add_sampling(parser)
    parser.add_argument("--strict", action="store_true",
                        help="stop at invalid UTF-8 (default: replace it and print a "
                             "warning)")  # fmt: skip
    add_decoding(parser)


def _run(arguments: argparse.Namespace) -> None:
    from nmt.cpu_memory import keep_freed_memory
    from nmt.lines.translate import LineOptions, run_translate

    if arguments.input == Path("-"):
        raise ArgumentError('{input} does not accept "-". To read standard input, omit {input}.')
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


def _links_file(text: str) -> Path:
    return Path(text) if text == "-" else output_file(text)


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
