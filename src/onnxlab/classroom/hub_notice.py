"""Why a kernel died, told in the cell that was running: part of a learner's server."""

import json
from typing import Any

from jupyter_server.services.kernels.connection.base import (
    deserialize_binary_message,
    deserialize_msg_from_ws_v1,
)
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

from onnxlab.classroom.notice_file import fresh_notice

__all__ = ["ToldWebsocketConnection"]


class ToldWebsocketConnection(ZMQChannelsWebsocketConnection):  # type: ignore[misc]  # is not typed
    """The way from a browser to a kernel, which also says why a kernel was ended."""

    _asked: Any = None

    def handle_incoming_message(self, incoming_msg: Any) -> None:  # noqa: ANN401 - text or bytes
        """Pass a message on, and note which cell is run."""
        super().handle_incoming_message(incoming_msg)
        header = _header(incoming_msg, self.subprotocol)
        if header.get("msg_type") == "execute_request":
            self._asked = header

    def on_kernel_restarted(self) -> None:
        """Say why, then what is always said."""
        self._tell()
        super().on_kernel_restarted()

    def on_restart_failed(self) -> None:
        """Say why, then what is always said."""
        self._tell()
        super().on_restart_failed()

    def _tell(self) -> None:
        notice = fresh_notice()
        if notice and self._asked:
            self.write_stderr(notice, self._asked)


def _header(message: Any, protocol: str | None) -> dict[str, Any]:  # noqa: ANN401 - text or bytes
    """Return the header of a message as a browser sends it; {} if it has none that can be read."""
    try:
        if protocol == "v1.kernel.websocket.jupyter.org":
            found = json.loads(deserialize_msg_from_ws_v1(message)[1][0])
        elif isinstance(message, bytes):
            found = deserialize_binary_message(message)["header"]
        else:
            found = json.loads(message)["header"]
    except (ValueError, KeyError, IndexError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}
