"""Creates the HTTP application with its API routes, request queue, web page and error responses."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from nmt import __version__
from nmt.errors import InputError, NoModelError, Note, is_out_of_memory
from nmt.serving import libretranslate, microscope_routes, routes
from nmt.serving.batcher import Batcher, FullQueueError, NotReadyError
from nmt.serving.guard import Guard
from nmt.serving.hosts import Hosts
from nmt.serving.limits import Limits
from nmt.serving.metrics import Metrics
from nmt.serving.model_process import EndedError, ModelProcess
from nmt.serving.page_files import PageFiles
from nmt.serving.requests import batcher_of, json_response, living_batcher_of


def create_app(
    processes: Sequence[Callable[[], ModelProcess]],
    limits: Limits | None = None,
    *,
    note: Note = lambda text: None,
    loaded: Callable[[Batcher], None] = lambda batcher: None,
    hosts: Hosts | None = None,
) -> FastAPI:
    """Creates the HTTP application. At startup, the application starts the model processes.

    Args:
        processes: see `Batcher`.
        limits: the limits on requests, or None for the default limits.
        note: called with each warning and with a message for each internal error.
        loaded: called with the batcher after the model has been loaded and warmed up, or after
            loading has failed.
        hosts: the host names to accept in Host headers, or None to accept any host name.
    """
    limits = limits or Limits()
    batcher = Batcher(processes, limits.queue, note)
    metrics = Metrics(batcher)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        batcher.start(lambda: loaded(batcher))
        yield
        batcher.stop()  # by now, all requests have been answered or cancelled

    # FastAPI's documentation pages are disabled, because they load scripts from other servers
    app = FastAPI(
        title="nmt", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan,
        redirect_slashes=False,  # redirects would contain the host name from the Host header
    )  # fmt: skip
    app.state.limits, app.state.batcher, app.state.metrics = limits, batcher, metrics
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=6)
    page = PageFiles.read()
    app.add_middleware(Guard, metrics=metrics, note=note, hosts=hosts, policy=page.policy)
    _add_error_handlers(app, note)
    app.include_router(routes.router)
    app.include_router(microscope_routes.router)
    app.include_router(libretranslate.router)
    _add_probes(app)
    _add_page(app, page)
    return app


def _add_probes(app: FastAPI) -> None:
    async def health(request: Request) -> Response:
        """Responds with status 200, or with status 503 if all model processes have exited.

        The field `status` in the response is "degraded" if some model processes have exited.
        """
        problem = living_batcher_of(request).problem
        found = {"status": "degraded", "problem": problem} if problem else {"status": "ok"}
        return json_response(found)

    async def ready(request: Request) -> Response:
        """Responds with status 200 if the server can translate, or 503 if the model is loading."""
        batcher_of(request)
        return json_response({"status": "ready"})

    async def metrics(request: Request) -> Response:
        """Returns the metrics in the Prometheus text format."""
        text = request.app.state.metrics.text()
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    for path, probe in (("/health", health), ("/ready", ready), ("/metrics", metrics)):
        app.add_api_route(path, probe, methods=["GET"])
        app.add_api_route(path, probe, methods=["HEAD"], include_in_schema=False)


def _add_page(app: FastAPI, page: PageFiles) -> None:
    def serve(path: str, content: bytes, kind: str) -> None:
        async def file() -> Response:
            return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

        app.add_api_route(path, file, methods=["GET", "HEAD"], include_in_schema=False)

    for path, (content, kind) in page.files.items():
        serve(path, content, kind)


def _add_error_handlers(app: FastAPI, note: Note) -> None:
    async def refused(request: Request, error: HTTPException) -> Response:
        message = error.detail
        if error.status_code == 404:
            remedy = "GET /openapi.json lists all calls."
            if request.url.path.endswith("/"):
                remedy = "Remove the slash at the end."
            message = f"The API has no call at this path. {remedy}"
        elif error.status_code == 405 and error.headers:
            allowed = error.headers["Allow"].replace(", ", " or ")
            message = f"{request.url.path} does not support {request.method}. Use {allowed}."
        return json_response({"error": message}, error.status_code, error.headers)

    async def full(request: Request, _: FullQueueError) -> Response:
        wait_s = request.app.state.batcher.patience_s
        message = f"The queue is full. Try again in {wait_s} s."
        return json_response({"error": message}, 429, {"Retry-After": str(wait_s)})

    async def not_ready(request: Request, _: NotReadyError) -> Response:
        return json_response({"error": "The server is stopping."}, 503, {"Retry-After": "1"})

    async def lost(request: Request, _: EndedError) -> Response:
        message = "The model process ended during the translation. Try again."
        return json_response({"error": message}, 503, {"Retry-After": "5"})

    async def wrong(request: Request, error: InputError) -> Response:
        if is_out_of_memory(error.__context__ or error):
            note("nmt: warning: A request was rejected because a text needs too much memory.")
            message = "Out of memory. Shorten the text or lower the beam size."
            return json_response({"error": message}, 503)
        if isinstance(error, NoModelError):
            raise error
        return json_response({"error": str(error)}, 400)

    app.add_exception_handler(HTTPException, refused)  # type: ignore[arg-type]
    app.add_exception_handler(FullQueueError, full)  # type: ignore[arg-type]
    app.add_exception_handler(NotReadyError, not_ready)  # type: ignore[arg-type]
    app.add_exception_handler(EndedError, lost)  # type: ignore[arg-type]
    app.add_exception_handler(InputError, wrong)  # type: ignore[arg-type]
