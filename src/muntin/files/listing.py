"""Lists the files of a scan: named ones, those that match a pattern, and all in a folder and the folders in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pyarrow import fs

from muntin.errors import MuntinError
from muntin.files.file_set import File, FileSet

_WILD = re.compile(r"[*?\[{]")


def list_files(filesystem: fs.FileSystem, paths: Iterable[str], missing_ok: bool = False) -> list[File]:
    """The files at these paths, by their names, without empty ones and without a second mention."""
    found = {file.path: file for path in paths for file in _at(filesystem, path, missing_ok)}
    return [found[path] for path in sorted(found)]


def files_of(files: FileSet, missing_ok: bool = False) -> list[File]:
    """The files that there are now."""
    if files.catalog is not None:
        return files.catalog.files()
    return list_files(files.filesystem, files.paths, missing_ok)


def base_of(path: str) -> str:
    """The folder that a path or pattern begins in: the part without wildcards."""
    match = _WILD.search(path)
    return path if match is None else path[: match.start()].rpartition("/")[0] or "/"


def _at(filesystem: fs.FileSystem, path: str, missing_ok: bool) -> Iterator[File]:
    if _WILD.search(path) is None:
        info = filesystem.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            if missing_ok:
                return
            raise MuntinError(f"There is nothing at {path!r}; check the path, and that this machine can read it.")
        yield from _below(filesystem, info)
        return
    base = base_of(path)
    yield from _matching(filesystem, base, path[len(base) :].strip("/").split("/"))


def _matching(filesystem: fs.FileSystem, folder: str, parts: list[str]) -> Iterator[File]:
    """The files below a folder whose names match the parts of a pattern, one for each level."""
    pattern = re.compile(_translated(parts[0]))
    for info in _entries(filesystem, folder):
        if pattern.fullmatch(info.base_name) is None:
            continue
        if len(parts) == 1:
            yield from _below(filesystem, info)
        elif info.type == fs.FileType.Directory:
            yield from _matching(filesystem, info.path, parts[1:])


def _below(filesystem: fs.FileSystem, info: fs.FileInfo, root: int | None = None) -> Iterator[File]:
    """A file, or those in a folder. The path of what was given, or matched, is the root of partitions."""
    if info.type == fs.FileType.File:
        if info.size:
            parent = len(info.path) - len(info.base_name)
            yield File(info.path, info.size, info.mtime_ns or 0, parent if root is None else root)
        return
    for entry in _entries(filesystem, info.path):
        yield from _below(filesystem, entry, len(info.path) if root is None else root)


def _entries(filesystem: fs.FileSystem, folder: str) -> Iterator[fs.FileInfo]:
    """What is in a folder, without what Spark leaves out as well: names with a dot or an underscore in front."""
    # A folder may go while it is listed, such as that of a job that has committed its files.
    for info in filesystem.get_file_info(fs.FileSelector(folder or "/", allow_not_found=True)):
        name = info.base_name
        if not name.startswith(".") and not (name.startswith("_") and "=" not in name):
            yield info


def _translated(part: str) -> str:
    """One level of a pattern as a regular expression: `*`, `?`, `[a-c]`, `[^a]` and `{a,b}`, as Hadoop has them."""
    expression, depth, position = "", 0, 0
    while position < len(part):
        sign = part[position]
        if sign == "*":
            expression += ".*"
        elif sign == "?":
            expression += "."
        elif sign == "[" and "]" in part[position + 2 :]:
            end = part.index("]", position + 2)
            inside = part[position + 1 : end].replace("\\", r"\\")
            expression += f"[^{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]"
            position = end
        elif sign == "{":
            expression, depth = expression + "(?:", depth + 1
        elif sign == "}" and depth:
            expression, depth = expression + ")", depth - 1
        elif sign == "," and depth:
            expression += "|"
        else:
            expression += re.escape(sign)
        position += 1
    if depth:
        raise MuntinError(f"The pattern {part!r} has a {{ that is not closed; write it such as 'part-{{a,b}}*'.")
    return expression
