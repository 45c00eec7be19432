r"""Reads *.wire files, plays of named connections against one server, into statements and bytes.
It opens no socket: run.py acts the plays out.

    # A comment says why. A line that begins with a blank goes on with the line before.
    flags: --disable=c10d-legacy            the daemon of this file gets these flags, behind FLAGS of run.py
    space: other                    ... and one listener more, into the space of this name

    case M21: WAIT for two keys     each case has a fresh space of its own
    also: torch-libuv etcd          real peers that pass this case too (run.py --as torch-libuv)
    a open                          a connection; "a open modern" also shakes hands (HS),
                                    "a open at other" takes the listener of "space: other"
    a> M:WAIT list:"/k1","/k2"      sent as one segment
    a>> M:PING u32:7                sent byte by byte; the server reads each before the next comes
    a>| M:PING u32:7                sent as two segments: the case runs once for every place to cut
    a< u8:0                         exactly these bytes arrive; "a< u8:0 u8:1 | u8:1" one or other
    a< nothing                      the server has read all that was sent, and a stays silent
    a< closed                       the server ends the connection, and sends nothing before
    a< ... closed                   ... and sends whatever it likes before
    sync                            the server has read everything that was sent so far
    a half-close                    FIN, still reading
    a close                         FIN; what is not read yet does not matter
    a reset                         RST
    a log "*reason*"                the daemon logged a line about peer a (* is any text)
    a log nothing                   ... no line

When a case ends, connections that are still open must be open and silent.

Fields, for sending and expecting:

    u8:6 u16:1 u32:7 u64:1 i64:-7   little-endian integers
    "GET"                           raw text; escapes \r \n \t \0 \\ \" \xHH
    hex:00ff                        raw bytes
    str:"go"                        u64 length and bytes
    list:"a","b"   list:            u64 count, then each as str
    M:SET C:SET                     opcode of the modern and the legacy version
    HS                              VALIDATE and PING with nonce 0x12345678 ("HSR": its answer)
    head:"GET / HTTP/1.1","Host: x" lines of an HTTP head, and the empty line behind them
    ( FIELDS )   FIELD*100          a group; repetition. {n} in a repeated text counts from 0
    str:( FIELDS )                  the length of the group and the group

An HTTP answer is expected as `a< http:200 ITEMS` (http/1.0:200 for a status line of HTTP/1.0,
http:2xx for any of these):

    "Name: value"                   this header is there
    no:"Name"                       this one is not
    body:"text"                     this body, after de-chunking
    length | chunked | until-close  how the body must be framed (else any of them will do)
    bodiless                        the answer to HEAD: none, whatever the head announces
    times:100                       so many of them, one after the other
    begin                           the body comes later: `a< event:"text"` is its next line,
                                    `a< end` its last chunk, `a< event:"text" end` both

In headers, bodies, events and logs `*` stands for any text (`\*` for a star), and `<I>` for a
number: the first time it is kept for the rest of the case, then it must be equal. Text that is sent
may use it too, as <I> or <I+1>. <SPACE> is the name of the case's space, <TOKEN> what
an operator sends as Authorization.
"""

import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from c10d import LEGACY, MODERN, NONCE, blob, length, modern  # noqa: E402

OPCODES = {
    "M": MODERN,
    "C": LEGACY,
}
INTEGERS = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q", "i64": "<q"}

STAR = "\ue000"  # an escaped star, told apart from the wild one

TOKEN = re.compile(r"""\s*(?:
    (?P<comment>\#.*) | (?P<string>"(?:[^"\\]|\\.)*") | (?P<punct>[(),|]) | (?P<times>\*\d+) |
    (?P<word>[^\s"(),|*\#]+) )""", re.X)
ESCAPES = {"r": "\r", "n": "\n", "t": "\t", "0": "\0", "\\": "\\", '"': '"', "*": STAR}
VARIABLE = re.compile(r"<([A-Z]+)([+-]\d+)?>")


class ScriptError(Exception):
    """A *.wire file that cannot be read; the text begins with FILE:LINE."""


class Statement:
    """One line of a play. `verb` decides what `what` is: fields, items, a word, nothing."""

    def __init__(self, line, text, who, verb, what=None):
        self.line, self.text, self.who, self.verb, self.what = line, text, who, verb, what


class Case:
    def __init__(self, ident, title, line):
        self.id, self.title, self.line = ident, title, line
        self.also, self.statements = [], []

    def cut_statement(self):
        """The statement that asks for one run per place to cut, if there is one."""
        return next((s for s in self.statements if s.verb == ">|"), None)


class Script:
    def __init__(self, path):
        self.path, self.flags, self.spaces, self.cases = path, [], [], []


# ---- text to tokens


def unescape(quoted):
    """A quoted string as a str in which each character below U+0100 is one byte."""
    text = quoted[1:-1].encode().decode("latin-1")

    def one(match):
        kind = match.group(1)
        if kind[0] == "x":
            return chr(int(kind[1:], 16))
        if kind not in ESCAPES:
            raise ValueError("unknown escape \\%s" % kind)
        return ESCAPES[kind]

    return re.sub(r"\\(x[0-9a-fA-F]{2}|.)", one, text)


def tokens_of(text):
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise ValueError("cannot read %r" % text[at:].strip())
        kind = match.lastgroup
        if kind == "comment":
            break
        value = match.group(kind)
        if kind == "string":
            value = unescape(value)
        # Whether a blank stood before it: `str:"a"` is one field, `body: "a"` an error.
        found.append((kind, value, match.start(kind) > at or at == 0))
        at = match.end()
    return found


class Tokens:
    def __init__(self, text):
        self.list, self.at = tokens_of(text), 0

    def peek(self, kind, value=None):
        return (self.at < len(self.list) and self.list[self.at][0] == kind
                and value in (None, self.list[self.at][1]))

    def take(self, kind, value=None):
        if not self.peek(kind, value):
            seen = repr(self.list[self.at][1]) if self.at < len(self.list) else "the end"
            raise ValueError("expected %s, not %s" % (value or kind, seen))
        self.at += 1
        return self.list[self.at - 1][1]

    def glued_string(self):
        """The string right behind the word just taken."""
        if not self.peek("string") or self.list[self.at][2]:
            raise ValueError("expected a string right behind %r" % self.list[self.at - 1][1])
        return self.take("string")

    def done(self):
        return self.at == len(self.list)


# ---- tokens to fields


class Field:
    """Bytes to be made when variables are known: field(variables, counter)."""

    def __init__(self, encode, counts=False):
        self.encode, self.counts = encode, counts  # counts: the bytes depend on the counter

    def __call__(self, env, n=None):
        return self.encode(env, n)


def substitute(text, env):
    """Text with its <VARIABLES> replaced by what earlier answers gave."""
    def one(match):
        if match.group(1) not in env:
            raise ValueError("<%s> has no value yet" % match.group(1))
        value = env[match.group(1)]
        return str(int(value) + int(match.group(2))) if match.group(2) else str(value)

    return VARIABLE.sub(one, text)


def to_bytes(text):
    return text.replace(STAR, "*").encode("latin-1")


def text_field(text):
    def encode(env, n):
        return to_bytes(substitute(text if n is None else text.replace("{n}", str(n)), env))
    return Field(encode, "{n}" in text)


def constant(value):
    return Field(lambda env, n: value)


def as_str(field):
    def encode(env, n):
        return blob(field(env, n))
    return Field(encode, field.counts)


def sequence(fields):
    return Field(lambda env, n: b"".join(field(env, n) for field in fields),
                 any(field.counts for field in fields))


def repeated(field, count):
    if field.counts:
        return Field(lambda env, n: b"".join(field(env, i) for i in range(count)))
    return Field(lambda env, n: field(env, n) * count)


def parse_strings(tokens):
    """A comma-separated list of strings, the first right behind its word."""
    if not tokens.peek("string") or tokens.list[tokens.at][2]:
        return []
    strings = [tokens.take("string")]
    while tokens.peek("punct", ","):
        tokens.take("punct", ",")
        strings.append(tokens.take("string"))
    return strings


def parse_word(word, tokens):
    name, colon, rest = word.partition(":")
    if word in ("HS", "HSR"):
        return constant(modern.hello() if word == "HS" else NONCE)
    if not colon:
        raise ValueError("unknown field %r" % word)
    if name in INTEGERS:
        return constant(struct.pack(INTEGERS[name], int(rest, 0)))
    if name == "hex":
        return constant(bytes.fromhex(rest))
    if name in OPCODES:
        if rest not in OPCODES[name]:
            raise ValueError("version %s has no %s" % (name, rest))
        return constant(bytes([OPCODES[name].index(rest)]))
    if rest:
        raise ValueError("unknown field %r" % word)
    if name == "str":
        return as_str(parse_group(tokens) if tokens.peek("punct", "(")
                      else text_field(tokens.glued_string()))
    if name == "list":
        strings = [as_str(text_field(s)) for s in parse_strings(tokens)]
        return sequence([constant(length(len(strings)))] + strings)
    if name == "head":
        return sequence([text_field(s + "\r\n") for s in parse_strings(tokens) + [""]])
    raise ValueError("unknown field %r" % word)


def parse_group(tokens):
    tokens.take("punct", "(")
    fields = parse_fields(tokens)
    tokens.take("punct", ")")
    return fields


def parse_fields(tokens):
    """Fields up to the end, a closing bracket or a bar, as one field."""
    fields = []
    while not tokens.done() and not tokens.peek("punct", ")") and not tokens.peek("punct", "|"):
        if tokens.peek("punct", "("):
            field = parse_group(tokens)
        elif tokens.peek("string"):
            field = text_field(tokens.take("string"))
        else:
            field = parse_word(tokens.take("word"), tokens)
        if tokens.peek("times"):
            field = repeated(field, int(tokens.take("times")[1:]))
        fields.append(field)
    return sequence(fields)


# ---- what is expected


class Glob:
    """Text in which * is any text and <NAME> a number; remembers what <NAME> was."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text.replace(STAR, "\\*")

    def match(self, data, env):
        """Whether the bytes fit; on success env learns the variables that had no value."""
        pattern, fresh, at = "", [], 0
        for match in VARIABLE.finditer(self.text):
            pattern += self._escape(self.text[at:match.start()])
            at = match.end()
            if match.group(1) in env:
                pattern += re.escape(substitute(match.group(0), env))
            elif match.group(2):
                raise ValueError("%s has no value yet" % match.group(0))
            elif match.group(1) in fresh:
                pattern += "(?P=%s)" % match.group(1)
            else:
                fresh.append(match.group(1))
                pattern += r"(?P<%s>\d+)" % match.group(1)
        pattern += self._escape(self.text[at:])
        found = re.fullmatch(pattern, data.decode("latin-1"), re.S)
        if found:
            env.update({name: found.group(name) for name in fresh})
        return found is not None

    @staticmethod
    def _escape(text):
        return "".join(".*" if c == "*" else re.escape("*" if c == STAR else c) for c in text)


class HttpAnswer:
    """What `a< http:STATUS ITEMS` asks for."""

    def __init__(self, version, status):
        self.version, self.status = version, status
        self.headers, self.absent = [], []
        self.body, self.framing = None, None
        self.bodiless = self.begin = False
        self.times = 1


def parse_http(tokens):
    match = re.fullmatch(r"http(?:/(1\.[01]))?:([1-5](?:\d\d|xx))", tokens.take("word"))
    if match is None:
        raise ValueError("expected http:STATUS or http/1.0:STATUS")
    answer = HttpAnswer(match.group(1) or "1.1", match.group(2))
    while not tokens.done():
        if tokens.peek("string"):
            name, colon, value = tokens.take("string").partition(":")
            if not colon:
                raise ValueError("%r is no header" % name)
            answer.headers.append((name, Glob(value.strip())))
            continue
        word = tokens.take("word")
        if word == "no:":
            answer.absent.append(tokens.glued_string())
        elif word == "body:":
            answer.body = Glob(tokens.glued_string())
        elif word in ("length", "chunked", "until-close"):
            answer.framing = word
        elif word.startswith("times:"):
            answer.times = int(word[6:])
        elif word in ("bodiless", "begin"):
            setattr(answer, word, True)
        else:
            raise ValueError("unknown item %r" % word)
    return answer


def parse_expectation(text):
    """What stands behind `a<`, as (verb, what)."""
    tokens = Tokens(text)
    words = [value for kind, value, _ in tokens.list if kind == "word"]
    if len(words) == len(tokens.list):
        if words == ["nothing"] or words == ["closed"] or words == ["end"]:
            return "<" + words[0], None
        if words == ["...", "closed"]:
            return "<cut", None
    if tokens.peek("word") and re.match(r"http[:/]", words[0]):
        return "<http", parse_http(tokens)
    if tokens.peek("word", "event:"):
        tokens.take("word")
        glob = Glob(tokens.glued_string())
        last = not tokens.done()
        if last:
            tokens.take("word", "end")
        verb, what = "<event", (glob, last)
    else:
        verb, what = "<", [parse_fields(tokens)]
        while tokens.peek("punct", "|"):
            tokens.take("punct", "|")
            what.append(parse_fields(tokens))
    if not tokens.done():
        raise ValueError("cannot read what follows %r" % tokens.list[tokens.at - 1][1])
    return verb, what


# ---- files to cases


def parse_statement(number, text):
    match = re.match(r"(\w+)\s*(>>|>\||>|<)\s*(.*)", text, re.S)
    if match:
        who, verb, rest = match.groups()
        if verb == "<":
            return Statement(number, text, who, *parse_expectation(rest))
        tokens = Tokens(rest)
        fields = parse_fields(tokens)
        if not tokens.done():
            raise ValueError("cannot read %r" % rest)
        return Statement(number, text, who, verb, fields)

    tokens = Tokens(text)
    words = [value for _, value, _ in tokens.list]
    if words == ["sync"]:
        return Statement(number, text, None, "sync")
    who, verb, args = words[0], words[1] if len(words) > 1 else None, words[2:]
    if verb == "open" and (args in ([], ["modern"]) or len(args) == 2 and args[0] == "at"):
        return Statement(number, text, who, verb, args)
    if verb in ("half-close", "close", "reset") and not args:
        return Statement(number, text, who, verb)
    if verb == "log" and len(args) == 1:
        kind = tokens.list[2][0]
        if kind == "string":
            return Statement(number, text, who, verb, Glob(args[0]))
        if args == ["nothing"]:
            return Statement(number, text, who, verb, None)
    raise ValueError("unknown statement")


def logical_lines(text):
    """(number, line) without comments and blank lines; continuations are joined."""
    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0].isspace() and lines:
            # A comment behind the first half must not swallow the second.
            lines[-1][1] = strip_comment(lines[-1][1]) + " " + line.strip()
        else:
            lines.append([number, line.rstrip()])
    return lines


def strip_comment(line):
    match = re.match(r'(?:[^"#]|"(?:[^"\\]|\\.)*")*', line)
    return match.group(0).rstrip()


def read_script(path):
    script, case = Script(path), None
    with open(path, encoding="utf-8") as file:
        lines = logical_lines(file.read())
    for number, text in lines:
        text = strip_comment(text)
        key, colon, rest = text.partition(":")
        try:
            if key == "flags" and colon and case is None:
                script.flags += rest.split()
            elif key == "space" and colon and case is None:
                script.spaces.append(rest.strip())
            elif key.startswith("case ") and colon:
                case = Case(key[5:].strip(), rest.strip(), number)
                if not re.fullmatch(r"[A-Za-z0-9-]+", case.id):
                    raise ValueError("a case needs a name of letters, digits and dashes")
                if any(other.id == case.id for other in script.cases):
                    raise ValueError("case %s is there twice" % case.id)
                script.cases.append(case)
            elif case is None:
                raise ValueError("no case yet")
            elif key == "also" and colon:
                case.also += rest.split()
            else:
                case.statements.append(parse_statement(number, text))
        except (ValueError, IndexError, struct.error) as error:
            raise ScriptError("%s:%d: %s\n    %s" % (path, number, error, text)) from None
    return script
