"""MkDocs' hooks: add README.md (as the first page) and files above docs, and publish each page as Markdown too.

Links in the tree are relative to the tree; on the site, files above docs are next to its pages. `llms.txt` lists all
pages for programs that read documentation (https://llmstxt.org).
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


def on_post_build(config: Any) -> None:
    """Write each page as Markdown next to its HTML, and `llms.txt`, the list of all pages."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for page in config.nav_pages:
        place = page.file.src_uri
        (site / place).parent.mkdir(parents=True, exist_ok=True)
        (site / place).write_text(page.markdown, "utf-8")
        section = page.ancestors[-1].title if page.ancestors else None
        if section is not None and f"## {section}" not in lines:
            lines += ["", f"## {section}", ""]
        lines.append(f"- [{page.title}]({place})")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def on_nav(nav: Any, config: Any, **_: Any) -> None:
    """Remember the pages of the navigation for `on_post_build`."""
    config.nav_pages = nav.pages
