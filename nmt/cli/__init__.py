"""Implements the `nmt` command, with one module per subcommand.

Only this package defines flags and reads command-line arguments. Subcommands import the library
only when they run, so that `nmt --help` is fast.
"""

import os
import traceback
from collections.abc import Mapping

from nmt.cli import (
    attention,
    average,
    benchmark,
    config,
    evaluate,
    export,
    import_,
    info,
    prepare,
    report,
    score,
    serve,
    train,
    translate,
)
from nmt.cli.parser import parse
from nmt.cli.terminal import (
    flush_output,
    forget_unwritable,
    must_not_be_torn_down,
    say,
    set_up_streams,
)
from nmt.errors import (
    InputError,
    ReportedElsewhereError,
    Status,
    Stopped,
    is_out_of_memory,
    of_system,
)
from nmt.signals import stoppable
from nmt.system import refuse_windows

_EXTRAS = {  # packages that only some commands need
    "ctranslate2": ("ctranslate2",),
    "huggingface": ("transformers",),
    "plots": ("matplotlib",),
    "serve": ("fastapi", "httptools", "prometheus_client", "uvicorn", "uvloop"),
    "train": (
        "datasets", "jinja2", "mpmath", "protobuf", "pyarrow", "regex", "sacrebleu", "sacremoses",
        "tensorboard",
    ),
}  # fmt: skip

_PACKAGES = {"google": "protobuf"}  # packages with other names than their modules

COMMANDS = (
    prepare.COMMAND, train.COMMAND, translate.COMMAND, evaluate.COMMAND, score.COMMAND,
    attention.COMMAND, average.COMMAND, export.COMMAND, import_.COMMAND, info.COMMAND,
    config.COMMAND, report.COMMAND, serve.COMMAND, benchmark.COMMAND,
)  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Runs a command and returns its exit status.

    If a distributed run has failed, each of its ranks exits immediately.
    """
    set_up_streams()
    try:
        status = _status_of(argv)
    except Exception:  # a bug, which the interpreter reports unless this process might hang
        if not must_not_be_torn_down():
            raise
        traceback.print_exc()
        status = Status.BUG
    finally:
        forget_unwritable()
    if status and must_not_be_torn_down():
        os._exit(status)
    return status


def _status_of(argv: list[str] | None) -> int:
    flags: Mapping[str, str] = {}
    name = if_out_of_memory = ""
    try:
        refuse_windows()
        arguments = parse(COMMANDS, argv)
        flags, name = arguments.flags, arguments.command.name
        if_out_of_memory = arguments.command.if_out_of_memory
        _check_directories()
        with stoppable("Interrupted."):  # raises, so that incomplete files are removed
            arguments.command.run(arguments)
        flush_output()
        return Status.DONE
    except ReportedElsewhereError as error:
        return error.status
    except InputError as error:
        return _refused(error, flags)
    except Stopped as stopped:
        say(f"nmt: {stopped}")
        return stopped.status
    except KeyboardInterrupt:
        say("nmt: Interrupted.")
        return 130
    except BrokenPipeError:  # the reader of the output has exited
        return Status.DONE
    except ModuleNotFoundError as error:
        missing = _missing_extra(error, name)
        if missing is None:
            raise
        return _refused(missing, flags)
    except (UnicodeEncodeError, OSError, MemoryError, RuntimeError, ImportError) as error:
        refusal = _of_surroundings(error, if_out_of_memory)
        if refusal is None:
            raise
        return _refused(refusal, flags)


def _check_directories() -> None:
    """Checks that the current directory exists.

    If no temporary directory is writable, /tmp is set as Python's temporary directory, so that
    imports do not fail.

    Raises:
        InputError: the current directory was removed.
    """
    from nmt.processes import need_current_directory, need_no_temporary_directory

    need_no_temporary_directory()
    need_current_directory()


def _refused(error: InputError, flags: Mapping[str, str]) -> int:
    """Prints an error with the parameter names in `flags`, and returns the error's exit status."""
    for problem in error.naming(flags):
        say(f"nmt: error: {problem}")
    return error.status


def _missing_extra(error: ModuleNotFoundError, command: str) -> InputError | None:
    """Returns an error that names the extra to install, or None if no extra contains the module."""
    package = (error.name or "").partition(".")[0]
    package = _PACKAGES.get(package, package)
    for extra, packages in _EXTRAS.items():
        if package in packages:
            return InputError(
                f"{package} is not installed, but nmt {command} needs it. "
                f"Install it with: pip install 'nmt[{extra}]'"
            )
    return None


def _of_surroundings(error: Exception, if_out_of_memory: str) -> InputError | None:
    """Returns an InputError if the machine or its setup caused `error`, otherwise None."""
    match error:
        case UnicodeEncodeError() if error.encoding != "utf-8":
            return InputError(
                f"The file name {str(error.object)!a:.200} cannot be encoded in the locale's "
                f"encoding ({error.encoding}). Use a UTF-8 locale, or set PYTHONUTF8=1."
            )
        case _ if is_out_of_memory(error):
            return InputError(f"Out of memory on this machine. {if_out_of_memory}")
        case OSError() if error.errno is not None:
            return of_system(error)
    return None
