"""The names of files and folders, each defined here or by the module of this room that writes it.

Where they are, and whether they are whole, is the business of `RunDirectory`, model directories and
checkpoints (nmt/runs) and of prepared data (nmt/data). The configuration needs the names to refuse
directories that `nmt prepare` or `nmt train` would replace.
"""

from nmt.storage.atomic import LOCK
from nmt.storage.manifest import NAME as MANIFEST

# of a model directory
CONFIG, TOKENIZER, WEIGHTS = "config.yaml", "tokenizer.model", "model.safetensors"
SHORTLIST = "shortlist.safetensors"  # of prepared data too, if they have one
# of exported models
CTRANSLATE2_WEIGHTS, HUGGINGFACE_CONFIG = "model.bin", "config.json"
# of a checkpoint, besides
OPTIMIZER, STATE = "optimizer.safetensors", "state.json"
# of a run
MODEL, CHECKPOINTS = "model", "checkpoints"
LOG, TENSORBOARD = "log.jsonl", "tensorboard"
EVALUATION, TEST_SCORES, EXAMPLES = "evaluation", "test.json", "examples.json"
DATA_MANIFEST = "data.json"  # a copy of the data's
# of prepared data
TRAIN, VALIDATION = "train", "validation"
WORK, USED_BY = ".work", ".used-by"
# of a run and of prepared data
TEST_SET = "test_set"

# What `nmt train` and `nmt prepare` make, replace and remove in their directories, besides what
# begins with `atomic.PREFIX`.
_IN_BOTH = {TEST_SET, TOKENIZER, LOCK}
IN_DATA = frozenset(_IN_BOTH | {SHORTLIST, TRAIN, VALIDATION, MANIFEST, WORK, USED_BY})
IN_RUN = frozenset(
    _IN_BOTH | {MODEL, CHECKPOINTS, TENSORBOARD, EVALUATION, CONFIG, DATA_MANIFEST, LOG}
)
# Beside a manifest: of data, of a model or of a checkpoint
DESCRIBED = IN_DATA | {CONFIG, WEIGHTS, OPTIMIZER, STATE}
