"""Trains, evaluates and serves the encoder-decoder Transformer of Vaswani et al. (2017).

This example translates a sentence with a trained model:

    from nmt import Translator

    translator = Translator.load("runs/demo")
    translator.translate("The man reads a book.").text

All names in this package are imported lazily, so that `import nmt` alone does not import torch.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "ArgumentError", "Attention", "DivergedError", "InputError", "NextToken", "NoModelError",
    "ScoredTranslation", "SearchOptions", "StorageError", "Translation", "Translator",
    "__version__", "load_config",
]  # fmt: skip

if TYPE_CHECKING:
    from nmt.config import load as load_config
    from nmt.decoding.options import SearchOptions
    from nmt.decoding.score import ScoredTranslation
    from nmt.decoding.translation import Attention, NextToken, Translation
    from nmt.errors import ArgumentError, DivergedError, InputError, NoModelError, StorageError
    from nmt.translator import Translator


def __getattr__(name: str) -> Any:
    match name:
        case "ArgumentError" | "DivergedError" | "InputError" | "NoModelError" | "StorageError":
            from nmt import errors

            return getattr(errors, name)
        case "Attention" | "NextToken" | "Translation":
            from nmt.decoding import translation

            return getattr(translation, name)
        case "ScoredTranslation":
            from nmt.decoding.score import ScoredTranslation

            return ScoredTranslation
        case "SearchOptions":
            from nmt.decoding.options import SearchOptions

            return SearchOptions
        case "Translator":
            from nmt.translator import Translator

            return Translator
        case "load_config":
            from nmt.config import load

            return load
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
