"""Looking at the first pairs of each corpus, before the long work.

In: the corpora. Out: warnings, for a person and for the manifest.
"""

from itertools import islice

from nmt.data import cleaning, languages
from nmt.data.corpora import describe, read_corpus
from nmt.data.stages.job import Job, Part
from nmt.data.suspicions import SAMPLE_PAIRS, suspicions
from nmt.errors import Note


def look(job: Job, note: Note) -> list[str]:
    """Warns of text in another language, and of training text that looks wrong.

    Raises:
        InputError: a corpus cannot be read.
    """
    samples = [_sample(job, part) for part in job.parts]
    data = job.config.data
    # a corpus with a prefix may be of another pair of languages, or of this one in reverse
    usual = [
        sample
        for part, sample in zip(job.parts, samples, strict=True)
        if part.corpus.source_prefix is None
    ]
    found = languages.misplaced(usual, data.source_language, data.target_language)
    for part, (name, *sides) in zip(job.parts, samples, strict=True):
        if part.split == "train":
            found += [f"{what}, {name}, {remedy}" for what, remedy in suspicions(*sides)]
    for warning in found:
        note(f"nmt: warning: {warning}")
    return found


def _sample(job: Job, part: Part) -> languages.Sample:
    """A corpus's name, and source and target of its first pairs, normalized; no empty ones."""
    pairs = read_corpus(part.corpus, job.config.data, part.split)
    normal = (tuple(map(cleaning.normalize, pair)) for pair in islice(pairs, SAMPLE_PAIRS))
    kept = [pair for pair in normal if not cleaning.is_empty(*pair)]
    name = f"{part.title} ({describe(part.corpus)})"
    return name, [source for source, _ in kept], [target for _, target in kept]
