"""What a stranger sends, whole: a stream gives what has come so far, whatever is asked of it."""

from aiohttp import StreamReader


async def whole(content: StreamReader, most: int) -> bytes | None:
    """Return all that comes, None if that is more than `most` bytes."""
    found = bytearray()
    async for chunk in content.iter_any():
        found += chunk
        if len(found) > most:
            return None
    return bytes(found)
