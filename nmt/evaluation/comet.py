"""COMET, a trained metric (Rei et al., 2020), by the optional package unbabel-comet.

Its models are files of PyTorch that can run code when they are read: take those you trust.
"""

from collections.abc import Sequence

from nmt.errors import InputError, Status

_BATCH = 16  # sentences


def load_comet(name: str):
    """COMET's model of that name on the hub, downloaded at first use.

    Raises:
        InputError: the extra is missing (status 2), or the model cannot be had (status 5).
    """
    try:
        from comet import download_model, load_from_checkpoint
    except ImportError:
        raise InputError(
            "COMET is not installed, --comet, pip install -e '.[comet]' in another environment"
        ) from None
    try:
        return load_from_checkpoint(download_model(name))  # its encoder's vocabulary comes too
    except (KeyError, OSError) as error:  # COMET's KeyError stands for whatever went wrong
        first_line = str(error.args[0] if error.args else error).partition("\n")[0]
        raise InputError(
            f"the COMET model cannot be had ({first_line}), --comet {name}, "
            "check the name and the network",
            status=Status.STORAGE,
        ) from None


def comet_score(
    model, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
) -> float:
    """The system score, the mean over sentences; about 0 to 1 for the default model.

    Args:
        model: as `load_comet` gives it.
    """
    import torch

    rows = [
        {"src": source, "mt": hypothesis, "ref": reference}
        for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True)
    ]
    gpus = int(torch.cuda.is_available())
    return float(model.predict(rows, batch_size=_BATCH, gpus=gpus, progress_bar=False).system_score)
