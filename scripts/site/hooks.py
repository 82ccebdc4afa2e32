"""Hooks of the documentation site: pages from docs/ and beside it, and a menu that is the index of the pages.

The sources stay readable on a forge: links are relative to the file, and docs/README.md lists all pages by section.
Here the same links are made to work in the site, and the same list becomes the menu, so that neither is kept twice.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
FRONT_PAGE: Final = "README.md"  # of the repository; that of the site is the index
INDEX: Final = "docs/README.md"
ASSETS: Final = ROOT / "scripts" / "site" / "assets"
FOREIGN_SCRIPT: Final = "https://unpkg.com/iframe-worker/shim"
DECISIONS: Final = "docs/decisions"
CODE: Final = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
LINK: Final = re.compile(r"\[([^\]\n]*(?:\n[^\]\n]+)?)\]\(([^)\s#:]+)((?:#[^)\s]*)?)\)")  # a colon: it leads elsewhere
TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)
ITEM: Final = re.compile(r"(?:[-*+]|\d+[.)]) +")
FILE_NAME: Final = re.compile(r"^`?[\w.-]+\.md`?$")

Menu = list[Any]  # pages, and sections as {title: page or menu}: the form of `nav`


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the menu from the index."""
    config.nav = menu((ROOT / INDEX).read_text(encoding="utf-8"))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that the index lists and that are not in docs/, and what pages load."""
    for target in outside(INDEX):
        files.append(File.generated(config, target, abs_src_path=str(ROOT / target)))
    for asset in ASSETS.iterdir():
        files.append(File.generated(config, f"assets/{asset.name}", abs_src_path=str(asset)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where the pages are in the site, and call pages by their titles."""
    here = in_repository(page.file)
    places = {in_repository(each): each.src_uri for each in files.documentation_pages()}

    def in_site(link: re.Match[str]) -> str:
        text, path, anchor = link.groups()
        target = normpath(join(dirname(here), path))
        if target == FRONT_PAGE:
            target, anchor = INDEX, ""
        if target not in places:
            return link[0]  # a picture, or what a strict build complains about
        if FILE_NAME.match(text):
            text = title(target)
        return f"[{text}]({relpath(places[target], dirname(page.file.src_uri) or '.')}{anchor})"

    return indented(outside_code(markdown, in_site))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Take the one script that the theme would load from elsewhere from the site itself."""
    here = relpath("assets/iframe-worker.js", dirname(page.file.dest_uri) or ".")
    return output.replace(FOREIGN_SCRIPT, here)


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """Do the same for the page that says that a page is missing. Its links are those of the root."""
    return output_content.replace(FOREIGN_SCRIPT, "/assets/iframe-worker.js")


def in_repository(file: File) -> str:
    """Return the path of a page in the repository."""
    path = Path(file.abs_src_path or "").resolve()
    return path.relative_to(ROOT).as_posix()


def title(page: str) -> str:
    """Return the first heading of a page; of a decision its number."""
    if page.startswith(f"{DECISIONS}/0"):
        return page.removeprefix(f"{DECISIONS}/")[:4]
    found = TITLE.search((ROOT / page).read_text(encoding="utf-8"))
    if found is None:
        raise PluginError(f"{page} has no title")
    return found[1]


def outside_code(markdown: str, replace: Callable[[re.Match[str]], str]) -> str:
    """Replace links, but not what looks like one in a block of code."""
    parts: list[str] = []
    at = 0
    for block in CODE.finditer(markdown):
        parts += [LINK.sub(replace, markdown[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*parts, LINK.sub(replace, markdown[at:])])


def indented(markdown: str) -> str:
    """Indent what belongs to an item of a list by four columns, as this Markdown wants it.

    The sources indent it by the width of the item's mark, as CommonMark has it.
    """
    lines: list[str] = []
    columns: list[int] = []  # where the text of each open item begins
    has_blank: list[bool] = []  # whether it has several paragraphs: then the next item needs an empty line before it
    in_block = False
    after_blank = True
    for line in markdown.splitlines():
        text = line.lstrip(" ")
        if not text:
            lines.append("")
            after_blank = True
            has_blank = [True] * len(columns)
            continue
        column = len(line) - len(text)
        while columns and not in_block and column < columns[-1]:
            columns.pop()
            if has_blank.pop() and not after_blank:
                lines.append("")
        base = columns[-1] if columns else 0
        lines.append(" " * 4 * len(columns) + line[base:])
        is_code = in_block or (after_blank and column >= base + 4)
        if text.startswith("```"):
            in_block = not in_block
        elif not is_code and (item := ITEM.match(text)) is not None:
            columns.append(column + item.end())
            has_blank.append(False)
        after_blank = False
    return "\n".join(lines) + "\n"


def linked(page: str, markdown: str) -> Iterator[str]:
    """Yield the files of the repository that a page links to."""
    for _, path, _ in LINK.findall(CODE.sub("", markdown)):
        yield normpath(join(dirname(page), path))


def outside(page: str) -> list[str]:
    """Return the pages that are not in docs/ and that one leads to, over others like them."""
    found: list[str] = []
    leads = [page]
    while leads:
        here = leads.pop()
        for target in linked(here, (ROOT / here).read_text(encoding="utf-8")):
            if target.endswith(".md") and not target.startswith("docs/") and target not in (*found, FRONT_PAGE):
                found.append(target)
                leads.append(target)
    return found


def menu(index: str) -> Menu:
    """Return the menu: the headings of the index are its sections, the first links of table rows its pages."""
    top: Menu = [{"Start": "README.md"}]
    section: Menu = top
    group: Menu = top
    listed = set(linked(INDEX, index))
    for line in index.splitlines():
        if line.startswith("## "):
            section = group = []
            top.append({line.removeprefix("## "): section})
        elif line.startswith("### "):
            group = []
            section.append({line.removeprefix("### "): group})
        elif line.startswith("| [") and (link := LINK.search(line)) is not None:
            target = normpath(join(dirname(INDEX), link[2]))
            group.append({link[1]: target.removeprefix("docs/")})
            if not target.startswith("docs/") and (folder := dirname(target)):
                group += [each for each in outside(target) if each.startswith(f"{folder}/") and each not in listed]
            if target == f"{DECISIONS}/README.md":
                group += [f"decisions/{each.name}" for each in sorted((ROOT / DECISIONS).glob("0*.md"))]
    return [each for each in top if not isinstance(each, dict) or all(each.values())]
