"""JSON in the attributes of a trial or a study, cut into chunks as one attribute can be too short.

A storage is shared and may hold anything under a name, so reading never raises, and reads no more
than half a megabyte. An empty chunk ends a text, so that a shorter one can replace a longer one.
Where several workers replace a text, each chunk begins with its owner, and the next owner's chunk
ends it too:

    bbo_plugins:stopping:3f2a91c05b7de846:warm:0 = '17:{"theta": [...], ...'
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_CHUNK = 2_045  # characters of one attribute as the storage writes it, quoted and escaped
MAX_CHUNKS = 256


def to_chunks(prefix: str, content: Mapping[str, Any], owner: int | None = None) -> dict[str, str]:
    """Return the attributes that hold ``content`` as JSON, named by the prefix and a number.

    Args:
        prefix: Beginning of the attributes' names.
        content: JSON in the strict sense.
        owner: Number with which each chunk begins; None for none.

    Returns:
        At most :data:`MAX_CHUNKS` of them can be read again.
    """
    text = json.dumps(content, separators=(",", ":"))
    head = "" if owner is None else f"{owner}:"
    limit = _MAX_CHUNK - len(head)
    attributes: dict[str, str] = {}
    start = 0
    while start < len(text):
        chunk = text[start : start + limit]
        # Storages write the chunk as JSON again: a quote or backslash becomes two characters.
        while (excess := len(json.dumps(chunk)) - limit) > 0:
            chunk = chunk[: -((excess + 1) // 2)]
        attributes[f"{prefix}{len(attributes)}"] = head + chunk
        start += len(chunk)
    return attributes


def joined_chunks(prefix: str, attributes: Mapping[str, Any], *, owned: bool = False) -> str:
    """Return the text that :func:`to_chunks` has cut; an empty one if there is none to be read.

    Args:
        prefix: Beginning of the attributes' names.
        attributes: The attributes of a trial or a study.
        owned: Whether each chunk begins with its owner.
    """
    chunks: list[str] = []
    owners = set()
    while chunk := attributes.get(f"{prefix}{len(chunks)}"):
        if not isinstance(chunk, str) or len(chunk) > _MAX_CHUNK or len(chunks) >= MAX_CHUNKS:
            return ""
        owner, _, text = chunk.partition(":") if owned else ("", "", chunk)
        owners.add(owner)
        if len(owners) > 1:
            break  # left over from a longer text, or another worker is just writing
        chunks.append(text)
    return "".join(chunks)


def decoded(text: str) -> Any:
    """Return what a JSON text says, None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def of_version(content: object, version: int) -> dict[str, Any] | None:
    """Return ``content`` if it is an object of this version, else None."""
    return content if isinstance(content, dict) and content.get("v") == version else None


def is_finite(number: object) -> bool:
    """Return whether ``number`` is one, and can be converted to a finite float."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    try:
        return math.isfinite(number)
    except OverflowError:  # an int beyond the floats
        return False
