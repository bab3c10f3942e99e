"""The name under which a message's destination is counted and reported."""


def display_name(to: str) -> str:
    """Return a topic's name as it is, and of a URL the origin: scheme, host and port.

    Paths may hold secrets, and be as many as there are messages.
    """
    if "://" not in to:
        return to
    scheme, _, rest = to.partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}"
