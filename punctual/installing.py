"""How to install a distribution of Punctual, for messages that name a missing one.

No distribution is on a package index yet, and others could register similar names there: the command asks no index.
"""


def install_command(requirement: str) -> str:
    """Return the command that installs `requirement`, such as `punctual-kafka[encryption]`, from local wheels."""
    return (
        f"`pip install --no-index --find-links WHEELS '{requirement}'`, where WHEELS is a directory of wheels "
        '("From wheels" in docs/how-to/deploy.md says how to fill it)'
    )
