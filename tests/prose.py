#!/usr/bin/env python3
"""Finds riddles, sentences that consist of function words, in comments and documents; limits their number.

  tests/prose.py [--list PERCENT] [FILE...]

FILEs (if there are none, the lines of standard input name them) are *.c *.h *.py *.sh, whose comments are read, and
*.md; other files are skipped. A riddle has 9 to 34 words, of which at least 62 % are function words ("it", "that",
"which"). Such a sentence names no agent, key, file or request, so a reader must guess its subject. Prints the riddles
of each folder that has more of them than LIMITS allows, one PATH:LINE: TEXT a line, and exits with 1 if it printed any.

  --list PERCENT   prints the sentences with at least this share of function words and the figures of each folder
  --older FILE     an older version of this script; a limit that was lower there is a violation
"""
import argparse
import collections
import os
import re
import sys

# Riddles per 1,000 sentences. A limit may only fall: rewrite the sentence, do not raise the number.
TREE_LIMIT = 5  # all files together
FOLDER_LIMIT = 20  # a folder without a row here
LIMITS = {}

RIDDLE = 0.62
FUNCTION_WORDS = frozenset('''
    that these this those it its one ones who whom whose whoever whatever what which of so such as
    all any each both either neither none nobody no not some somebody other others else more
    is are was were be been being has have had do does did he him they them their there
    and or but than then by for to too also with without in on at from when while until yet still again
'''.split())
COMMENTED = ('.c', '.h', '.py', '.sh')
C_COMMENT = re.compile(r'/\*.*?\*/|(?:^[ \t]*//[^\n]*\n)+', re.S | re.M)
HASH_COMMENT = re.compile(r'(?:^[ \t]*#[^\n]*\n)+', re.M)
PYTHON_COMMENT = re.compile(r'""".*?"""|(?:^[ \t]*#[^\n]*\n)+', re.S | re.M)
LINE_START = re.compile(r'^[ \t]*(?:/\*+|\*(?!/)|//|#|""")?')
LINE_END = re.compile(r'(?:\*/|""")$')
LIST_ITEM = re.compile(r'\s*[-*] ')


def comment_lines(path, text):
    """Yields (line number, text without the comment's marks) of each comment; a number of 0 ends a comment."""
    pattern = C_COMMENT if path.endswith(('.c', '.h')) else PYTHON_COMMENT if path.endswith('.py') else HASH_COMMENT
    line, at = 1, 0
    for found in pattern.finditer(text):
        line += text.count('\n', at, found.start())
        at = found.start()
        for i, content in enumerate(found.group().split('\n')):
            yield line + i, LINE_END.sub('', LINE_START.sub('', content.rstrip()))
        yield 0, ''


def document_lines(text):
    """The same of a document: without code, and with a 0 before each item of a list and each cell of a table."""
    fenced = False
    for number, content in enumerate(text.split('\n'), 1):
        if content.lstrip().startswith('```'):
            fenced = not fenced
            yield 0, ''
        elif not fenced and not content.startswith('    '):
            if LIST_ITEM.match(content):
                yield 0, ''
                content = LIST_ITEM.sub('', content, count=1)
            content = re.sub(r'\]\([^)]*\)', ']', re.sub(r'`[^`]*`', 'X', content))
            for i, cell in enumerate(content.split('|')):
                if i > 0:
                    yield 0, ''
                yield number, cell


def sentences(lines):
    """Yields (line number, sentence): it ends behind a mark at the end of a word, or at an empty line."""
    words, start = [], 0
    for number, content in lines:
        parts = content.split()
        if not parts and words:
            yield start, ' '.join(words)
            words = []
        for part in parts:
            start = start if words else number
            words.append(part)
            if part[-1] in '.;:?!':
                yield start, ' '.join(words)
                words = []
    if words:
        yield start, ' '.join(words)


def share(sentence):
    """The share of function words, or None: too few or too many words to tell."""
    words = re.findall(r"[A-Za-z']+", sentence)
    if not 9 <= len(words) <= 34:
        return None
    return sum(word.lower() in FUNCTION_WORDS for word in words) / len(words)


class Folder:
    """The sentences of one folder, and its riddles as (path, line, share, sentence)."""

    def __init__(self):
        self.sentences = 0
        self.riddles = []

    def rate(self):
        return 1000 * len(self.riddles) / max(self.sentences, 1)


def read_folders(paths, at):
    folders = collections.defaultdict(Folder)
    for path in sorted(paths):
        if not path.endswith((*COMMENTED, '.md')):
            continue
        with open(path, encoding='utf-8', errors='replace') as f:
            text = f.read()
        folder = folders[os.path.dirname(path) or '.']
        for line, sentence in sentences(document_lines(text) if path.endswith('.md') else comment_lines(path, text)):
            part = share(sentence)
            if part is not None:
                folder.sentences += 1
                if part >= at:
                    folder.riddles.append((path, line, part, sentence))
    return folders


def whole(folders):
    tree = Folder()
    for folder in folders.values():
        tree.sentences += folder.sentences
        tree.riddles += folder.riddles
    return tree


def show(folders):
    for name, folder in sorted(folders.items(), key=lambda item: -item[1].rate()) + [('the tree', whole(folders))]:
        for path, line, part, sentence in folder.riddles if name != 'the tree' else []:
            print(f'{path}:{line}: {100 * part:.0f} %: {sentence}')
        print(f'{name}: {folder.sentences} sentences, {len(folder.riddles)} riddles, {folder.rate():.0f} per 1,000')


def raised_limits(older):
    """Violations: the limits that are higher here than in the text of an older version."""
    here = limits_of(open(__file__, encoding='utf-8').read())
    before = limits_of(older)
    for name, (line, limit) in here.items():
        _, bound = before.get(name) or before.get('FOLDER_LIMIT') or (0, limit)
        if limit > bound:
            yield f'tests/prose.py:{line}: the limit of {name} was {bound} and is {limit} now: limits may only fall'


def limits_of(text):
    """{folder or name of a constant: (line, limit)}"""
    limits = {}
    for number, line in enumerate(text.split('\n'), 1):
        found = re.match(r"""(?:    ')?([\w./]+)(?:': | = )(\d+)\b""", line)
        if found:
            limits[found[1]] = number, int(found[2])
    return limits


def violations(folders):
    for name, folder in sorted(folders.items()):
        limit = LIMITS.get(name, FOLDER_LIMIT)
        if folder.rate() > limit:
            for path, line, part, sentence in folder.riddles:
                yield (f'{path}:{line}: a riddle, {100 * part:.0f} % function words; {name}/ has {folder.rate():.0f} per '
                       f'1,000 sentences and may have {limit}: {sentence}')
    tree = whole(folders)
    if tree.rate() > TREE_LIMIT:
        yield f'tests/prose.py:1: the tree has {tree.rate():.1f} riddles per 1,000 sentences and may have {TREE_LIMIT}'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--list', type=float, metavar='PERCENT')
    parser.add_argument('--older', metavar='FILE', action='append', default=[])
    parser.add_argument('files', nargs='*', metavar='FILE')
    args = parser.parse_args()
    folders = read_folders(args.files or sys.stdin.read().split('\n'), args.list / 100 if args.list else RIDDLE)
    if args.list:
        show(folders)
        return 0
    found = list(violations(folders))
    for older in args.older:
        with open(older, encoding='utf-8') as f:
            found += raised_limits(f.read())
    print(''.join(line + '\n' for line in found), end='')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
