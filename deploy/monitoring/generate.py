"""Writes the alert rules and the dashboard: `python -m deploy.monitoring.generate`, from the top of the tree."""

import argparse
import json
from pathlib import Path

import yaml  # type: ignore[import-untyped] # it ships no types

from deploy.monitoring.alerts import groups
from deploy.monitoring.dashboard import dashboard

_HERE = Path(__file__).parent
#: The chart brings what it installs.
PLACES = (_HERE, _HERE.parent / "helm" / "punctual" / "monitoring")
#: Where the runbooks are: the page in this tree, as long as nobody says where it is served.
RUNBOOKS = "docs/how-to/troubleshooting.md"
_MADE = "# Generated from deploy/monitoring/alerts.py: change it, and run `make format`.\n"


class _Rules(yaml.SafeDumper):  # type: ignore[misc] # it ships no types
    """Writes what has several lines as it is."""


_Rules.add_representer(
    str,
    lambda made, text: made.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def files(runbooks: str = RUNBOOKS) -> dict[str, str]:
    """Return the text of each file that is made, by its name."""
    rules: str = yaml.dump(groups(runbooks), Dumper=_Rules, sort_keys=False, width=1_000)
    return {"alerts.yaml": _MADE + rules, "dashboard.json": json.dumps(dashboard(), indent=1) + "\n"}


def main() -> None:
    """Write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runbooks", default=RUNBOOKS, help="address of the page that alerts lead to")
    parser.add_argument("--to", type=Path, help="directory to write to, in place of this one and the chart's")
    options = parser.parse_args()
    for place in PLACES if options.to is None else (options.to,):
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files(options.runbooks).items():
            (place / name).write_text(text, "utf-8")
            print(place / name)


if __name__ == "__main__":
    main()
