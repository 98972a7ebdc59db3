"""COMET, a trained metric (Rei et al., 2020), by the optional package unbabel-comet.

Its models are PyTorch files that can run code when they are loaded: use only those you trust.
"""

from collections.abc import Sequence

from nmt.errors import ArgumentError, StorageError

_BATCH = 16  # sentences


class Comet:
    """COMET's model of that name on the hub, downloaded at first use.

    Raises:
        ArgumentError: the extra is missing.
        StorageError: the model cannot be loaded.
    """

    def __init__(self, name: str):
        self.name = name
        try:
            from comet import download_model, load_from_checkpoint
        except ImportError:
            raise ArgumentError(
                "COMET is not installed, {comet}, pip install 'nmt[comet]' in another environment"
            ) from None
        try:
            self._model = load_from_checkpoint(download_model(name))  # and the encoder's vocabulary
        except (KeyError, OSError) as error:  # COMET raises KeyError whatever went wrong
            reason = str(error.args[0] if error.args else error).partition("\n")[0]
            raise StorageError(
                f"COMET model cannot be loaded ({reason}), {name}, check the name and the network"
            ) from None

    def score(
        self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
    ) -> float:
        """The system score, the mean over sentences; about 0 to 1 for the default model."""
        import torch

        rows = [
            {"src": source, "mt": hypothesis, "ref": reference}
            for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True)
        ]
        gpus = int(torch.cuda.is_available())
        found = self._model.predict(rows, batch_size=_BATCH, gpus=gpus, progress_bar=False)
        return float(found.system_score)
