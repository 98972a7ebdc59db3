# An image without torch that serves a model exported for CTranslate2:
#
#     nmt export runs/demo --format ctranslate2 --quantization int8 --output exported
#     docker build --tag nmt .
#     docker run --publish 127.0.0.1:8000:8000 --volume ./exported:/model:ro nmt
FROM python:3.12-slim AS build
COPY . /source
RUN pip wheel --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
COPY constraints.txt /
COPY --from=build /wheels /wheels
# nmt's dependencies without torch and safetensors, and its extras ctranslate2 and serve
RUN pip install --no-cache-dir --constraint /constraints.txt \
    numpy pydantic pyyaml sentencepiece tqdm ctranslate2 fastapi httptools \
    prometheus_client uvicorn uvloop \
    && pip install --no-cache-dir --no-deps /wheels/*.whl
USER nobody
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/ready')"]
ENTRYPOINT ["nmt", "serve"]
CMD ["/model", "--host", "0.0.0.0"]
