"""Checks the first pairs of each corpus before the slow stages run.

The stage returns warnings, which are shown to the user and written to the manifest.
"""

from itertools import islice

from nmt.data import cleaning, languages
from nmt.data.corpora import describe, read_corpus
from nmt.data.stages.job import CorpusEntry, Job
from nmt.data.suspicions import SAMPLE_PAIRS, suspicions
from nmt.errors import Note


def inspect_corpora(job: Job, note: Note) -> list[str]:
    """Warns about text in the wrong language and about training text that looks faulty.

    Returns:
        The warnings, which the function has also passed to `note`.

    Raises:
        InputError: a corpus cannot be read.
    """
    samples = [_sample(job, entry) for entry in job.entries]
    data = job.data
    # the prefix of a corpus may select another language pair or the reverse direction
    usual = [
        sample
        for entry, sample in zip(job.entries, samples, strict=True)
        if entry.corpus.source_prefix is None
    ]
    found = languages.misplaced(usual, data.source_language, data.target_language)
    for entry, (name, *sides) in zip(job.entries, samples, strict=True):
        if entry.split == "train":
            found += [f"In {name}, {what}. {remedy}" for what, remedy in suspicions(*sides)]
    for warning in found:
        note(f"nmt: warning: {warning}")
    return found


def _sample(job: Job, entry: CorpusEntry) -> languages.Sample:
    """Returns a corpus's name and its first pairs after normalization, without empty pairs."""
    pairs = read_corpus(entry.corpus, job.data, entry.split)
    normal = (tuple(map(cleaning.normalize, pair)) for pair in islice(pairs, SAMPLE_PAIRS))
    kept = [pair for pair in normal if not cleaning.is_empty(*pair)]
    name = f"{entry.title} ({describe(entry.corpus)})"
    return name, [source for source, _ in kept], [target for _, target in kept]
