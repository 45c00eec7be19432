#!/usr/bin/env python3
"""Joins the status page into one file, and writes it in C with the policy that names its script and style.

    join.py OUT.c SOURCE_ROOT STATUS.html STATUS.css SCRIPT.js...

A browser that keeps to the policy runs this script and this style, by their hashes, and nothing else.
"""
import base64
import hashlib
import os
import re
import sys

sys.path.insert(0, os.path.join(sys.argv[2], "deploy"))
from embed import literal  # noqa: E402

POLICY = ("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; connect-src 'self'; "
          "frame-ancestors 'none'; base-uri 'none'; form-action 'none'")

# A browser asks each time whether the page is still the same: it is that of this release.
HEADERS = ("Content-Security-Policy: %s\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-cache\r\n"
           "ETag: %s\r\n")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def digest(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def main():
    out, _, html, css, *scripts = sys.argv[1:]
    style = "\n" + read(css)
    script = "\n'use strict';\n{\n" + "\n".join(read(path) for path in scripts) + "}\n"
    for text, end in ((style, "</style"), (script, "</script"), (script, "<!--")):
        if end in text.lower():
            sys.exit("join.py: %s would end its element" % end)
    head, middle, rest = re.fullmatch("(.*)@CSS@(.*)@JS@(.*)", read(html), re.S).groups()
    page = (head + style + middle + script + rest).encode()
    policy = POLICY % (digest(script), digest(style))
    etag = '"%s"' % hashlib.sha256(page + policy.encode()).hexdigest()[:32]
    with open(out, "w", encoding="ascii") as f:
        f.write('/* Made by rdzv/admin/page/join.py. */\n#include "rdzv/admin/page_text.h"\n\n')
        f.write("const char page_headers[] =\n%s;\n\n" % literal((HEADERS % (policy, etag)).encode()))
        f.write("const char page_etag[] =\n%s;\n\n" % literal(etag.encode()))
        f.write("const char page_text[] =\n%s;\n\n" % literal(page))
        f.write("const size_t page_text_len = sizeof page_text - 1;\n")


if __name__ == "__main__":
    main()
