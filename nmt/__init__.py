"""nmt: the encoder-decoder Transformer of Vaswani et al. (2017), from text to BLEU.

The library's front door, each name imported when it is first asked for:

    from nmt import Translator
    print(Translator.load("runs/demo").translate("The man reads.")[0].text)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.config import load as load_config
    from nmt.decoding.translator import SearchOptions, Translator
    from nmt.errors import InputError

__version__ = "0.1.0"
__all__ = ["InputError", "SearchOptions", "Translator", "__version__", "load_config"]


def __getattr__(name: str) -> Any:
    match name:
        case "Translator" | "SearchOptions":
            from nmt.decoding import translator

            return getattr(translator, name)
        case "load_config":
            from nmt.config import load

            return load
        case "InputError":
            from nmt.errors import InputError

            return InputError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
