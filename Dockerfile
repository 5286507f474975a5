# The course in an image: for one laptop, for a dev container, for a JupyterHub on Kubernetes.
# How to use it: packages/onnxlab-class/docs/kubernetes.md.
#
#   docker build -t onnxlab .
#   docker run --rm -p 127.0.0.1:8888:8888 onnxlab
#
# The second command prints the address to open. To keep work: add  -v onnxlab-home:/home/learner

FROM python:3.11-slim-bookworm

# g++: chapter 08 builds an operator in C++.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends g++ git \
 && rm -rf /var/lib/apt/lists/*

RUN useradd --uid 1000 --create-home --shell /bin/bash learner

ENV ORT_DISABLE_TELEMETRY=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /opt/onnxlab

# The builder's own choice of a mirror, which pip reads by these names. They do not stay in the image.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL

# The ordinary index gives a torch with several gigabytes of CUDA. Empty: take that one. A mirror of PyTorch's
# CPU builds can be named here, an index or a page of links.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY requirements.txt ./
RUN if [ -n "$TORCH_INDEX" ]; then \
      pip install --no-deps --index-url "$TORCH_INDEX" --find-links "$TORCH_INDEX" \
        "$(grep -o '^torch==[^ ]*' requirements.txt)"; \
    fi

COPY LICENSE LICENSE-TEXT README.md pyproject.toml course.py ./
COPY src src
COPY packages packages
# For a hub: the version of JupyterHub that it runs (packages/onnxlab-class/docs/kubernetes.md). Empty: none.
ARG JUPYTERHUB=
RUN pip install -r requirements.txt ${JUPYTERHUB:+"jupyterhub==$JUPYTERHUB"}

COPY starter starter
COPY notebooks notebooks
COPY labs labs

# The settings that course.py gives JupyterLab (no news, no look for updates), for whatever else starts it here.
RUN mkdir -p /usr/local/share/jupyter/lab/settings /usr/local/etc/jupyter \
 && cp starter/lab_settings/* /usr/local/share/jupyter/lab/settings/ \
 && printf '%s' '{"LabApp": {"news_url": null, "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",' \
      ' "extension_manager": "readonly"}}' > /usr/local/etc/jupyter/jupyter_lab_config.json

# What does not work is found here and not in the room.
RUN python -m compileall -q src packages && pip check && onnxlab --help > /dev/null

USER 1000
ENV HOME=/home/learner ONNXLAB_ENVIRONMENT=current
WORKDIR /home/learner
EXPOSE 8888
# A learner's own copy, in which no work is ever overwritten, and JupyterLab on the first chapter.
CMD ["python", "/opt/onnxlab/course.py", "--folder=/home/learner", "--no-browser", "--ip=0.0.0.0", "--port=8888"]
