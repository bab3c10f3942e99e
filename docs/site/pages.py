"""MkDocs' hooks: pages and files above docs that the site has too, README.md as its first page.

Links are written for a reader of the tree. On the site, what is above docs stands beside its pages.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parents[1]
TREE = DOCS.parent
#: A link to a file: what stands before it, the path, and what follows it, a heading perhaps.
LINK = re.compile(r"(\]\()((?!\w+:)[^)#\s]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, config: Any) -> Files:
    """Add README.md, and every file above docs that a page links to."""
    left, found = list(DOCS.rglob("*.md")), {TREE / "README.md"}
    left += found
    while left:
        page = left.pop()
        for _, target, _ in LINK.findall(page.read_text("utf-8")):
            path = (page.parent / target).resolve()
            if path.is_file() and not path.is_relative_to(DOCS) and path not in found:
                found.add(path)
                left += [path] if path.suffix == ".md" else []
    for path in found:
        files.append(File.generated(config, path.relative_to(TREE).as_posix(), content=path.read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page with its links as they are on the site."""
    uri = page.file.src_uri
    here = DOCS / uri if (DOCS / uri).exists() else TREE / uri

    def moved(link: re.Match[str]) -> str:
        before, target, after = link.groups()
        path = (here.parent / target).resolve()
        if not path.exists():
            return link[0]  # MkDocs says which
        place = path.relative_to(DOCS if path.is_relative_to(DOCS) else TREE)
        place /= "index.md" if path.is_dir() else ""
        return f"{before}{'../' * uri.count('/')}{place.as_posix()}{after}"

    return LINK.sub(moved, markdown)
