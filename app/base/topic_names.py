"""Names of topics that an installation has anew with each change of its number of partitions."""


def changelog(app_id: str, repartitioned: object) -> str:
    """Return the table's changelog; `repartitioned` is the number of partitions that one was rewritten for, or false.

    The first one has no number.
    """
    return f"{app_id}-p{repartitioned}-delays-changelog" if repartitioned else f"{app_id}-delays-changelog"


def forwards(app_id: str, repartitioned: object) -> str:
    """Return the topic of what is on its way to its home partition: workers of before send nothing to the new one."""
    return f"{app_id}-p{repartitioned}-forwards" if repartitioned else f"{app_id}-forwards"


def layout(app_id: str) -> str:
    """Return the topic that says how an installation's number of partitions has changed, if it ever has."""
    return f"{app_id}-layout"


def fixed(app_id: str) -> tuple[str, ...]:
    """Return the names of this module that an installation may have whatever its number of partitions is."""
    return changelog(app_id, 0), forwards(app_id, 0), layout(app_id)
