"""One connection between a process and the registry: frames, sealed with the group's key where it has one."""

import asyncio
import os
from typing import Any, Final

import msgspec

from doyen.contrib.tooz.messages import FRAME_MAX
from doyen.errors import RemoteProtocolError
from doyen.net.keys import ID_BYTES, NONCE_BYTES, Keyring

_HELLO: Final = 16
UNREAD_MAX: Final = 4 * FRAME_MAX


class Wire:
    """Writes and reads messages.  A sealed frame opens only in its own place of its own conversation."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keyring: Keyring | None, group: str
    ) -> None:
        self._reader, self._writer = reader, writer
        self._keyring, self._group = keyring, group.encode()
        self._talk = b""
        self._sent = self._got = 0
        self._ours, self._theirs = b"p", b"r"

    async def greet(self, *, registry: bool) -> None:
        """Exchange random bytes, so that no frame of another conversation is believed."""
        if registry:
            self._ours, self._theirs = self._theirs, self._ours
        ours = os.urandom(_HELLO)
        self._writer.write(ours)
        theirs = await self._reader.readexactly(_HELLO)
        self._talk = theirs + ours if registry else ours + theirs

    def send(self, message: Any) -> None:
        if self._writer.is_closing():
            return
        body = msgspec.msgpack.encode(message)
        ring = self._keyring
        if ring is not None and not ring.speaks_clear:
            nonce = os.urandom(NONCE_BYTES)
            body = ring.primary + nonce + ring.seal(body, self._place(self._ours, self._sent), nonce)
        if len(body) > FRAME_MAX:
            raise RemoteProtocolError("oversized", f"a message of {len(body)} bytes, at most {FRAME_MAX}")
        if self._writer.transport.get_write_buffer_size() > UNREAD_MAX:
            self._writer.close()  # The other side does not read: it would fill our memory.
            return
        self._sent += 1
        self._writer.write(len(body).to_bytes(4, "big") + body)

    async def read(self, kind: Any) -> Any:
        """Return the next message.  Raises `RemoteProtocolError` for what is none, `OSError` or EOF at the end."""
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        if size > FRAME_MAX:
            raise RemoteProtocolError("oversized", f"a frame of {size} bytes, at most {FRAME_MAX}")
        body = await self._reader.readexactly(size)
        ring = self._keyring
        if ring is not None and (body[:ID_BYTES] in ring.by_id or not ring.hears_clear):
            nonce = body[ID_BYTES : ID_BYTES + NONCE_BYTES]
            if len(nonce) < NONCE_BYTES:
                raise RemoteProtocolError("seal", "a frame that is not sealed")
            sealed = body[ID_BYTES + NONCE_BYTES :]
            body = ring.open(body[:ID_BYTES], sealed, self._place(self._theirs, self._got), nonce)
        self._got += 1
        try:
            return msgspec.msgpack.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError("malformed", str(error)) from None

    def _place(self, side: bytes, number: int) -> bytes:
        return b"doyen tooz\0" + side + self._talk + number.to_bytes(8, "big") + self._group

    def close(self) -> None:
        self._writer.close()
