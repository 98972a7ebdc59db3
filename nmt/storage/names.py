"""Defines the names of files and directories that more than one module uses.

The modules for run directories, model directories and checkpoints (in nmt/runs) and for prepared
data (in nmt/data) define the paths of these files and check whether they are complete. The
configuration uses the names to refuse directories that `nmt prepare` or `nmt train` would replace.
"""

from nmt.storage.atomic import LOCK
from nmt.storage.manifest import NAME as MANIFEST

# Of a model directory
CONFIG, TOKENIZER, WEIGHTS = "config.yaml", "tokenizer.model", "model.safetensors"
SHORTLIST = "shortlist.safetensors"  # of prepared data, too
# Of exported models
CTRANSLATE2_WEIGHTS, HUGGINGFACE_CONFIG = "model.bin", "config.json"
# Of a checkpoint, in addition
OPTIMIZER, STATE = "optimizer.safetensors", "state.json"
# Of a run
MODEL, CHECKPOINTS = "model", "checkpoints"
LOG, TENSORBOARD = "log.jsonl", "tensorboard"
EVALUATION, TEST_SCORES, EXAMPLES = "evaluation", "test.json", "examples.json"
DATA_MANIFEST = "data.json"  # a copy of the manifest of the prepared data
# Of prepared data
TRAIN, VALIDATION = "train", "validation"
WORK, USED_BY = ".work", ".used-by"
# Of a run and of prepared data
TEST_SET = "test_set"

# What `nmt train` and `nmt prepare` make, replace and remove in their directories, apart from names
# that begin with `atomic.PREFIX`
_IN_BOTH = {TEST_SET, TOKENIZER, LOCK}
IN_DATA = frozenset(_IN_BOTH | {SHORTLIST, TRAIN, VALIDATION, MANIFEST, WORK, USED_BY})
IN_RUN = frozenset(
    _IN_BOTH | {MODEL, CHECKPOINTS, TENSORBOARD, EVALUATION, CONFIG, DATA_MANIFEST, LOG}
)
# Files that a manifest describes: of prepared data, a model or a checkpoint
DESCRIBED = IN_DATA | {CONFIG, WEIGHTS, OPTIMIZER, STATE}
