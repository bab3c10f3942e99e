"""Names of topics that change with an installation's number of partitions."""


def changelog(app_id: str, repartitioned: object) -> str:
    """Return the table's changelog; `repartitioned` is the number of partitions that it was rewritten for, or false.

    The first changelog has no number in its name.
    """
    return f"{app_id}-p{repartitioned}-delays-changelog" if repartitioned else f"{app_id}-delays-changelog"


def forwards(app_id: str, repartitioned: object) -> str:
    """Return the topic of records for other home partitions; workers from before a repartition keep to the old one."""
    return f"{app_id}-p{repartitioned}-forwards" if repartitioned else f"{app_id}-forwards"


def layout(app_id: str) -> str:
    """Return the topic that records the changes of an installation's number of partitions."""
    return f"{app_id}-layout"


def fixed(app_id: str) -> tuple[str, ...]:
    """Return the names from this module that an installation may have with any number of partitions."""
    return changelog(app_id, 0), forwards(app_id, 0), layout(app_id)
