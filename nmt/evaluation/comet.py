"""Computes the trained metric COMET (Rei et al., 2020) with the package unbabel-comet.

A COMET model is a PyTorch file, which can execute code when it is loaded. Use only COMET models
that you trust.
"""

from collections.abc import Sequence

from nmt.errors import ArgumentError, StorageError

_BATCH = 16  # number of sentences


class Comet:
    """A COMET model, which is downloaded from the Hugging Face Hub at first use.

    Raises:
        ArgumentError: COMET is not installed.
        StorageError: the COMET model cannot be downloaded or loaded.
    """

    def __init__(self, name: str):
        self.name = name
        try:
            from comet import download_model, load_from_checkpoint
        except ImportError:
            raise ArgumentError(
                "{comet} requires COMET, which is not installed. "
                "Run \"pip install 'nmt[comet]'\" in a separate environment, and use nmt there."
            ) from None
        try:
            self._model = load_from_checkpoint(download_model(name))
        except (KeyError, OSError) as error:  # COMET raises KeyError for most problems
            reason = str(error.args[0] if error.args else error).partition("\n")[0]
            raise StorageError(
                f"COMET model {name} cannot be loaded ({reason}). Check its name and "
                "the network connection."
            ) from None

    def score(
        self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
    ) -> float:
        """Returns the mean score of all sentences. Most COMET models return scores from 0 to 1."""
        import torch

        rows = [
            {"src": source, "mt": hypothesis, "ref": reference}
            for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True)
        ]
        gpus = int(torch.cuda.is_available())
        found = self._model.predict(rows, batch_size=_BATCH, gpus=gpus, progress_bar=False)
        return float(found.system_score)
