"""Defines the names of files and directories that more than one module uses.

The package `nmt.runs` defines the paths of these files in run directories, model directories and
checkpoints. The package `nmt.data` defines the paths in prepared data. The package `nmt.config`
uses the names to reject settings that would cause `nmt prepare` or `nmt train` to replace a
configured directory.
"""

from nmt.storage.atomic import LOCK
from nmt.storage.manifest import NAME as MANIFEST

# In a model directory
CONFIG, TOKENIZER, WEIGHTS = "config.yaml", "tokenizer.model", "model.safetensors"
SHORTLIST = "shortlist.safetensors"  # also in prepared data
# In an exported model
CTRANSLATE2_WEIGHTS, HUGGINGFACE_CONFIG = "model.bin", "config.json"
GENERATION_CONFIG = "generation_config.json"
# In a checkpoint, in addition to the files of a model directory
OPTIMIZER, STATE = "optimizer.safetensors", "state.json"
# In a run directory
MODEL, CHECKPOINTS = "model", "checkpoints"
LOG, TENSORBOARD = "log.jsonl", "tensorboard"
EVALUATION, TEST_SCORES, EXAMPLES = "evaluation", "test.json", "examples.json"
DATA_MANIFEST = "data.json"  # a copy of the prepared data's manifest
# In prepared data
TRAIN, VALIDATION = "train", "validation"
WORK, USED_BY = ".work", ".used-by"
# In a run directory and in prepared data
TEST_SET = "test_set"

# The files and directories that `nmt train` and `nmt prepare` create, replace and remove in their
# directories, in addition to names that begin with `atomic.PREFIX`
_IN_BOTH = {TEST_SET, TOKENIZER, LOCK}
IN_DATA = frozenset(_IN_BOTH | {SHORTLIST, TRAIN, VALIDATION, MANIFEST, WORK, USED_BY})
IN_RUN = frozenset(
    _IN_BOTH | {MODEL, CHECKPOINTS, TENSORBOARD, EVALUATION, CONFIG, DATA_MANIFEST, LOG}
)
# Files and directories that the manifest of prepared data, a model or a checkpoint can describe
DESCRIBED = IN_DATA | {CONFIG, WEIGHTS, OPTIMIZER, STATE}
