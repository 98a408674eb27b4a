"""List the habits of wording that the course avoids, each with its file and line.

The words are private to the first edition ("dearer"), lack a subject ("nobody"), or stand for a
missing noun ("told"). In Markdown, sentences above 30 words are listed as well.
A folder that `BASELINE` does not name is clean, and stays so. The other folders of a room together
hold no more than `BASELINE` says, so that a file can move from one to another.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("kvstore", "tests", "tools", "benchmarks", "docs", "notebooks", "proto")
SUFFIXES = (".py", ".md", ".ipynb", ".proto")
WORDS_A_SENTENCE = 30

HABITS = {
    "nobody": "name the subject: no client, no call, no thread",
    "whoever": "name the subject: the function, the caller, the reader",
    "somebody": "name the subject: another caller, the author",
    "told": "say what it is: a report, a message, a label; or use 'says', 'is given'",
    "dearer": "more expensive; the bottleneck",
    "(?:stands?|stood) still": "stalls, is idle",
    "of both": "of the two",
    "(?:takes?|took|taking) turns": "alternate; is serialised",
    r"(?:the|an|its|as) asked|\b[a-z]+_asked|(?<!_)asked(?=_|\.\w| =|\)|\])": "options, requested",
    r"the way(?= (?:is|to)\b|[.,;:)\"']|$)": "the network; how to",
}
"""Patterns of whole words, and what to write instead. An underscore ends a word: names count."""

QUOTATIONS: tuple[str, ...] = ()
"""Sentences of other authors, or of messages of other programs, that may hold such words."""

NAMED_HERE = ("tools/english.py", "tests/test_english.py")
"""Files that have to name the habits."""

# The counts may only shrink: `python tools/english.py --lower` writes smaller ones.
BASELINE: dict[str, int] = {
    "kvstore/course": 6,
    "kvstore/course/exercises": 26,
    "kvstore/course/experiments": 1,
    "kvstore/course/views": 2,
    "kvstore/measure": 3,
    "notebooks": 146,
    "tests": 4,
    "tests/course": 20,
    "tests/measure": 3,
}


class Finding(NamedTuple):
    """A habit in a line of a file."""

    path: str
    line: int
    words: str
    advice: str

    @property
    def folder(self) -> str:
        """The folder whose count it belongs to."""
        return self.path.rpartition("/")[0] or "."

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words!r}: {self.advice}"


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """List what the baseline does not allow; the exit status is 1 when there is any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--all", action="store_true", help="list those of the baseline as well")
    parser.add_argument("--lower", action="store_true", help="write the counts that have shrunk")
    options = parser.parse_args(arguments)
    findings = list(findings_in(root))
    counts = Counter(each.folder for each in findings)
    clean = sorted(counts.keys() - BASELINE.keys())
    found, allowed = by_room(counts), by_room(BASELINE)
    worse = sorted(room for room in allowed if found[room] > allowed[room])
    for each in findings:
        if options.all or each.folder in clean or room_of(each.folder) in worse:
            print(each)
    for folder in clean:
        print(f"{folder}: {counts[folder]} found; this folder was clean")
    for room in worse:
        print(f"{room}: {found[room]} found, at most {allowed[room]} allowed")
    smaller = lowered(BASELINE, counts)
    if smaller != BASELINE:
        print(f"{sum(smaller.values())} of the baseline's {sum(BASELINE.values())} are left")
        if options.lower:
            write_baseline(Path(__file__), smaller)
    return 1 if clean or worse else 0


def room_of(folder: str) -> str:
    """The room that a folder belongs to, such as `kvstore/course`."""
    return "/".join(folder.split("/")[:2])


def by_room(counts: Mapping[str, int]) -> Counter[str]:
    """The counts of each room's folders together."""
    rooms: Counter[str] = Counter()
    for folder, count in counts.items():
        rooms[room_of(folder)] += count
    return rooms


def findings_in(root: Path) -> Iterator[Finding]:
    """Every finding in the tree, in the order of the paths."""
    paths = [*root.glob("*.md"), *root.glob("*.py")]
    paths += [path for folder in FOLDERS for path in (root / folder).rglob("*")]
    for path in sorted(paths):
        name = path.relative_to(root).as_posix()
        if path.suffix in SUFFIXES and name not in NAMED_HERE and not _is_generated(path):
            yield from findings_of(name, path.read_text(encoding="utf-8"))


def _is_generated(path: Path) -> bool:
    return path.parent.name == ".ipynb_checkpoints" or path.stem.endswith(("_pb2", "_pb2_grpc"))


def findings_of(name: str, text: str) -> Iterator[Finding]:
    """The findings in one file of this name and text."""
    if not name.endswith(".ipynb"):
        yield from words_in(name, 1, text.splitlines())
        if name.endswith(".md"):
            yield from long_sentences_in(name, 1, text.splitlines())
        return
    starts = [n for n, line in enumerate(text.splitlines(), 2) if line.startswith('   "source": [')]
    for start, cell in zip(starts, json.loads(text)["cells"], strict=True):
        lines = "".join(cell["source"]).splitlines()
        yield from words_in(name, start, lines)
        if cell["cell_type"] == "markdown":
            yield from long_sentences_in(name, start, lines)


_PATTERNS = {
    re.compile(rf"(?<![A-Za-z])(?:{habit})(?![A-Za-z])", re.I): advice
    for habit, advice in HABITS.items()
}


def words_in(name: str, first: int, lines: Sequence[str]) -> Iterator[Finding]:
    """The habits in these lines, of which the first has the number `first`."""
    for number, line in enumerate(lines, first):
        for quotation in QUOTATIONS:
            line = line.replace(quotation, "")
        for pattern, advice in _PATTERNS.items():
            for match in pattern.finditer(line):
                yield Finding(name, number, match.group(), advice)


_NO_PROSE = re.compile(r"```.*?```|\$\$.*?\$\$|<svg.*?</svg>", re.S)
_ONE_WORD = re.compile(r"\$[^$]*\$|`[^`]*`|(?<=\])\([^)]*\)|<[^>]*>")
_BREAK = re.compile(r"^\s*(?:$|[-*+] |\d+\. |\||#|>)")


def long_sentences_in(name: str, first: int, lines: Sequence[str]) -> Iterator[Finding]:
    """The sentences of these Markdown lines that have more than 30 words; a formula is one."""
    text = _NO_PROSE.sub(lambda block: "\n" * block.group().count("\n"), "\n".join(lines))
    paragraph: list[str] = []
    start = first
    for number, line in enumerate([*text.splitlines(), ""], first):
        if _BREAK.match(line):
            yield from _long_sentences(name, start, " ".join(paragraph))
            paragraph, start = [], number
        if line.strip() and not line.lstrip().startswith(("|", "#")):
            start = number if not paragraph else start
            paragraph.append(line.strip())


def _long_sentences(name: str, line: int, paragraph: str) -> Iterator[Finding]:
    prose = _ONE_WORD.sub("x", paragraph)
    for sentence in re.split(r"(?<=[.!?])[)*\"']*\s+", prose):
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if len(words) > WORDS_A_SENTENCE:
            begin = " ".join(words[:6])
            yield Finding(name, line, f"{begin} ...", f"{len(words)} words: make it two sentences")


def lowered(baseline: Mapping[str, int], counts: Mapping[str, int]) -> dict[str, int]:
    """The baseline with the counts of today, without clean folders. The sum of no room grows."""
    today = {folder: counts.get(folder, 0) for folder in baseline}
    found, allowed = by_room(today), by_room(baseline)
    for folder in today:
        if found[room_of(folder)] > allowed[room_of(folder)]:
            today[folder] = baseline[folder]
    return {folder: count for folder, count in sorted(today.items()) if count}


def write_baseline(tool: Path, baseline: Mapping[str, int]) -> None:
    """Write these counts into the tool in place of its own."""
    rows = "".join(f'    "{folder}": {count},\n' for folder, count in baseline.items())
    text = tool.read_text(encoding="utf-8")
    table = re.compile(r"^BASELINE: dict\[str, int\] = \{.*?^\}\n", re.M | re.S)
    new = f"BASELINE: dict[str, int] = {{\n{rows}}}\n"
    tool.write_text(table.sub(new, text), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
