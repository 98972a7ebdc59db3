"""Defines all settings, and loads configurations from files and overrides."""

from nmt.config.comparing import differences, flatten
from nmt.config.directories import refuse_file
from nmt.config.loading import load, load_resolved, place_of, read_merged, validate
from nmt.config.problems import allowed
from nmt.config.settings import (
    CORPUS_KINDS,
    MAX_BEAM,
    MAY_CHANGE,
    ColumnsFile,
    Config,
    Corpus,
    Data,
    Decoding,
    Demo,
    DemoPairs,
    Hub,
    Measure,
    Model,
    Section,
    TextFiles,
    Tokenizer,
    Training,
    TsvFile,
)
from nmt.config.strict_yaml import inline

__all__ = [
    "CORPUS_KINDS",
    "MAX_BEAM",
    "MAY_CHANGE",
    "ColumnsFile",
    "Config",
    "Corpus",
    "Data",
    "Decoding",
    "Demo",
    "DemoPairs",
    "Hub",
    "Measure",
    "Model",
    "Section",
    "TextFiles",
    "Tokenizer",
    "Training",
    "TsvFile",
    "allowed",
    "differences",
    "flatten",
    "inline",
    "load",
    "load_resolved",
    "place_of",
    "read_merged",
    "refuse_file",
    "validate",
]
